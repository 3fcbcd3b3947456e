package install

import "time"

// pollPeriod is how often a step that waits looks again.
const pollPeriod = 100 * time.Millisecond

func tick(d time.Duration) <-chan time.Time { return time.After(d) }
