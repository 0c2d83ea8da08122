-- The audit trail is append-only. To delete by policy, drop {audit_kept}, delete, and run `pillarbox migrate`.
create trigger if not exists {audit_unchanged} before update on {audit} for each row
  signal sqlstate '45000' set message_text = 'the audit trail is append-only';

create trigger if not exists {audit_kept} before delete on {audit} for each row
  signal sqlstate '45000' set message_text = 'the audit trail is append-only';
