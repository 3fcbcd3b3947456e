package model

import (
	"fmt"
	"strings"
	"time"
)

// sentence joins what, a reason of one word and a message, without what is empty or repeated, and on one line.
func sentence(what, reason, message string) string {
	for _, part := range []string{reason, message} {
		part = strings.Join(strings.Fields(part), " ")
		if part != "" && !strings.Contains(what, part) {
			what += ": " + part
		}
	}
	return limit(what)
}

// textLimit bounds a sentence: errors of runtimes repeat themselves for kilobytes.
const textLimit = 400

// limit cuts a text at textLimit bytes, and at no part of a letter.
func limit(s string) string {
	if len(s) <= textLimit {
		return s
	}
	return strings.ToValidUTF8(s[:textLimit], "") + "…"
}

// short words a duration with one unit, or two where that matters.
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// dash stands for an empty text.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// plural writes a count with its word, which takes an s.
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
