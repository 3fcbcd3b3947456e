package status

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/cluster/status"
)

// TestFollow: a status is shown again when it is different, and not when it is the same; as JSON each is one line.
func TestFollow(t *testing.T) {
	for _, output := range []string{"text", "json"} {
		tick := make(chan time.Time)
		ctx, cancel := context.WithCancel(t.Context())
		looks := []string{"first", "first", "second", "second", "first"}
		read := func(context.Context) (*status.Status, error) {
			s := &status.Status{Error: looks[0]}
			looks = looks[1:]
			if len(looks) == 0 {
				cancel()
			}
			return s, nil
		}
		var out bytes.Buffer
		done := make(chan error, 1)
		go func() { done <- follow(ctx, read, output, &out, tick) }()
		for range 4 {
			tick <- now
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}

		text := out.String()
		if strings.Count(text, "first") != 1 || strings.Count(text, "second") != 1 { // the last look is cut off
			t.Errorf("%s: %q", output, text)
		}
		if output == "json" && strings.Count(text, "\n") != 2 {
			t.Errorf("not one line each: %q", text)
		}
	}

	bad := errors.New("no cluster")
	err := follow(t.Context(), func(context.Context) (*status.Status, error) { return nil, bad }, "text",
		&bytes.Buffer{}, nil)
	if !errors.Is(err, bad) {
		t.Error(err)
	}
}

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
