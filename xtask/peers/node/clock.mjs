// The clock of every peer here: from the first job to the last, and the one line that xtask reads.
import { createRequire } from "node:module";

export const jobs = Number(process.argv[2]);
export const payload = { text: "x".repeat(180) };

let begin;
let end;
let done = 0;

/** Counts jobs as they are handled; true once all are. The first call starts the clock, also with none. */
export function handled(count = 1) {
  begin ??= performance.now();
  done += count;
  if (done >= jobs) end ??= performance.now();
  return done >= jobs;
}

export function report(name) {
  const seconds = (end - begin) / 1000;
  const { version } = createRequire(import.meta.url)(`./node_modules/${name}/package.json`);
  console.log(JSON.stringify({ jobs: done, seconds, version }));
}
