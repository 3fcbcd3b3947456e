// Package supervise keeps a fixed set of processes running on this machine.
//
//	supervisor (holds the lock) ── starts, watches ──▶ process, process, …
//	   │  starts                                          │ pid and start time in run/<name>.json,
//	   ▼                                                  │ output appended to its log file
//	standby (waits for the lock) ◀─ takes over and adopts ┘
//
// Processes do not depend on their supervisor: they are sessions of their own that write to files, so they go on when
// the supervisor is killed. The standby then gets the lock, adopts the processes that run, starts those that do not,
// and starts a new standby.
//
//	state     trigger                        next
//	waiting   all conditions hold            running
//	running   process ended                  backoff (restarts + 1)
//	backoff   back-off time is over          waiting
//	any       stop                           stopped
package supervise
