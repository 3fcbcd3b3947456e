// Package probe runs the startup, liveness and readiness probes of containers.
//
// One goroutine per probe runs it at once and then every period. It gives each outcome to a pure Tracker and reports
// changes of the status only. The Tracker compares the number of consecutive outcomes with the thresholds:
//
//	          successes >= successThreshold            failures >= failureThreshold
//	unknown ───────────────────────────────▶ success ───────────────────────────────▶ failure (and back)
//
// The other two kinds begin when the startup probe has succeeded, and the startup probe ends then.
package probe
