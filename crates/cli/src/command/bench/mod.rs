//! bench
#[derive(clap::Args, Debug)]
pub(crate) struct BenchArgs {}
pub(crate) async fn run(_: &BenchArgs, _: &crate::context::Context) -> Result<(), crate::fault::Fault> {
    Ok(())
}
