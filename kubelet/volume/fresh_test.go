package volume

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/testkit/bubble"
)

// failures records when Options.Failed was called, and with what.
type failures struct {
	mu    sync.Mutex
	start time.Time
	at    []time.Duration
	last  error
}

func (f *failures) failed(_ *v1.Pod, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.last = append(f.at, time.Since(f.start)), err
}

func (f *failures) take() ([]time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.at
	f.at = nil
	return at, f.last
}

// pass lets time pass in the bubble, and what is due then be done.
func pass(d time.Duration) {
	time.Sleep(d)
	bubble.Wait()
}

// TestRewriteIsRetried: a rewrite that fails is tried again after growing times, up to a minute, and at once when the
// object changes. After a success the times are short again.
func TestRewriteIsRetried(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		o := newObjects()
		o.setMap("cm", map[string]string{"a": "1"})
		m := newTestManager(t, o)
		reports := &failures{start: time.Now()}
		m.opts.Failed = reports.failed
		prepare(t, m, podWith(cmVolume("v", "cm")))

		o.setMap("cm", map[string]string{"../a": "cannot be written"})
		pass(5 * time.Minute)
		at, err := reports.take()
		seconds := []time.Duration{0, 2, 6, 14, 30, 62, 122, 182, 242}
		for i := range seconds {
			seconds[i] *= time.Second
		}
		if !slices.Equal(at, seconds) {
			t.Errorf("tries at %v, want %v", at, seconds)
		}
		if err == nil || !strings.HasPrefix(err.Error(),
			`MountVolume.SetUp failed for volume "v" : invalid path "../a"`) {
			t.Errorf("reported: %v", err)
		}
		if got := read(t, m, "v", "a"); got != "1" {
			t.Errorf("the old content is lost: %q", got)
		}

		o.setMap("cm", map[string]string{"a": "2"})
		bubble.Wait()
		if at, _ := reports.take(); len(at) > 0 || read(t, m, "v", "a") != "2" {
			t.Errorf("after a change: failures at %v, content %q", at, read(t, m, "v", "a"))
		}

		reports.start = time.Now()
		o.setMap("cm", map[string]string{"/a": "cannot be written"})
		pass(3 * time.Second)
		if at, _ := reports.take(); !slices.Equal(at, []time.Duration{0, 2 * time.Second}) {
			t.Errorf("after a success, tries at %v", at)
		}
	})
}

// TestTokenIsRenewed: a token is renewed after 80 % of its life. While that fails, the old one stays until it expires.
func TestTokenIsRenewed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := newTestManager(t, newObjects())
		source := &tokens{life: time.Hour}
		reports := &failures{start: time.Now()}
		m.opts.Tokens, m.opts.Failed = source, reports.failed
		prepare(t, m,
			podWith(vol("api", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
				{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}}}}})))
		token := func(when, want string) {
			t.Helper()
			if got := read(t, m, "api", "token"); got != want {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		token("at first", "tok-1")
		pass(47 * time.Minute)
		token("before it is due", "tok-1")
		pass(time.Minute)
		token("when it is due", "tok-2")

		source.mu.Lock()
		source.fail = errors.New("refused")
		source.mu.Unlock()
		pass(55 * time.Minute)
		token("while renewals fail", "tok-2")
		if at, err := reports.take(); len(at) > 0 {
			t.Errorf("reported although the token is valid: %v at %v", err, at)
		}
		pass(10 * time.Minute)
		if at, err := reports.take(); len(at) == 0 || !strings.Contains(err.Error(), "refused") {
			t.Errorf("not reported after it has expired: %v at %v", err, at)
		}

		source.mu.Lock()
		source.fail = nil
		source.mu.Unlock()
		pass(2 * time.Minute)
		token("when renewals work again", "tok-3")
		if err := m.Teardown(context.Background(), "uid-1"); err != nil {
			t.Error(err)
		}
	})
}
