// Package probe asks containers whether they are started, alive and ready.
//
// One goroutine per probe runs it at once and then every period, feeds each outcome to a pure Tracker, and reports
// only changes of verdict. The Tracker counts consecutive outcomes against the thresholds:
//
//	          successes >= successThreshold            failures >= failureThreshold
//	unknown ───────────────────────────────▶ success ───────────────────────────────▶ failure (and back)
//
// Startup probes hold back the other two until they succeed once, and then end.
package probe
