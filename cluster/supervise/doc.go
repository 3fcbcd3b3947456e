// Package supervise keeps a fixed set of processes running on this machine.
//
//	supervisor (holds the lock) ── starts, watches ──▶ process, process, …
//	   │  starts                                          │ pid and start time in run/<name>.json,
//	   ▼                                                  │ output appended to its log file
//	standby (waits for the lock) ◀─ takes over and adopts ┘
//
// Processes do not depend on their supervisor: they are sessions of their own that write to files, so when the supervisor
// is killed they go on. The standby gets the lock the moment its holder dies, adopts what runs, starts what does not, and
// starts a new standby.
//
//	state     trigger                        next
//	waiting   what it waits for is there     running
//	running   process ended                  backoff (restarts + 1)
//	backoff   back-off time is over          waiting
//	any       stop                           stopped
package supervise
