package image

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	testwait "porthole.dev/porthole/internal/testkit/wait"
)

// store is the image service of a runtime. It knows images by name.
type store struct {
	cri.UnimplementedImageServiceServer
	mu    sync.Mutex
	has   map[string]bool
	fail  error    // of pulls
	users []string // who may pull; empty for everybody
	gate  chan struct{}
	pulls []string // name, and user of the login
}

func (s *store) ImageStatus(_ context.Context, r *cri.ImageStatusRequest) (*cri.ImageStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.has[r.Image.Image] {
		return &cri.ImageStatusResponse{}, nil
	}
	return &cri.ImageStatusResponse{Image: &cri.Image{Id: "id-of-" + r.Image.Image, Size: 7}}, nil
}

func (s *store) PullImage(_ context.Context, r *cri.PullImageRequest) (*cri.PullImageResponse, error) {
	if s.gate != nil {
		<-s.gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pulls = append(s.pulls, strings.TrimSpace(r.Image.Image+" "+r.Auth.GetUsername()))
	if r.Image.RuntimeHandler != "" {
		s.pulls[len(s.pulls)-1] += " for " + r.Image.RuntimeHandler
	}
	if s.fail != nil {
		return nil, s.fail
	}
	if len(s.users) > 0 && !slices.Contains(s.users, r.Auth.GetUsername()) {
		return nil, status.Error(codes.Unknown, "unauthorized")
	}
	s.has[r.Image.Image] = true
	return &cri.PullImageResponse{ImageRef: "ref"}, nil
}

func newPuller(t *testing.T, s *store) *Puller {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	cri.RegisterImageServiceServer(server, s)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///store", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return New(conn, 0)
}

// ask makes a request and returns its outcome, and its events, one per line.
func ask(p *Puller, r Request) (Image, *Error, string) {
	var said []string
	r.Event = func(kind, reason, message string) { said = append(said, kind+" "+reason+": "+message) }
	img, err := p.Ensure(context.Background(), r)
	var known *Error
	errors.As(err, &known)
	return img, known, strings.Join(said, "\n")
}

func TestPolicies(t *testing.T) {
	for _, c := range []struct {
		name, image string
		policy      v1.PullPolicy
		has         bool
		pulls       int
		reason      string
		events      string // prefixes, one per line
	}{
		{"there", "a.b/c:1", v1.PullIfNotPresent, true, 0, "",
			`Normal Pulled: Container image "a.b/c:1" already present on machine and can be accessed by the pod`},
		{"absent", "a.b/c:1", v1.PullIfNotPresent, false, 1, "",
			"Normal Pulling: Pulling image \"a.b/c:1\"\nNormal Pulled: Successfully pulled image \"a.b/c:1\" in "},
		{"always", "a.b/c:1", v1.PullAlways, true, 1, "",
			"Normal Pulling: Pulling image \"a.b/c:1\"\nNormal Pulled: Successfully pulled image"},
		{"never, there", "a.b/c:1", v1.PullNever, true, 0, "", "Normal Pulled: Container image"},
		{"never, absent", "a.b/c:1", v1.PullNever, false, 0, ErrImageNeverPull,
			`Warning ErrImageNeverPull: Container image "a.b/c:1" is not present with pull policy of Never`},
		{"no tag, no policy: latest, always", "c", "", true, 1, "", `Normal Pulling: Pulling image "c:latest"`},
		{"a tag, no policy: if not present", "c:1", "", true, 0, "", `Normal Pulled: Container image "c:1" already`},
		{"bad name", "A/b:c:d", v1.PullAlways, false, 0, ErrInvalidName,
			`Warning InspectFailed: Failed to apply default image tag "A/b:c:d"`},
	} {
		s := &store{has: map[string]bool{"a.b/c:1": c.has, "c:latest": c.has, "c:1": c.has}}
		img, err, events := ask(newPuller(t, s), Request{Name: c.image, Policy: c.policy, PodUID: "u"})
		if err == nil && (c.reason != "" || img.Ref == "") || err != nil && err.Reason != c.reason {
			t.Errorf("%s: image %+v, error %+v", c.name, img, err)
		}
		if len(s.pulls) != c.pulls {
			t.Errorf("%s: pulls %v, want %d", c.name, s.pulls, c.pulls)
		}

		said := strings.Split(events, "\n")
		for i, want := range strings.Split(c.events, "\n") {
			if i >= len(said) || !strings.HasPrefix(said[i], want) {
				t.Errorf("%s: events\n%s\nwant\n%s", c.name, events, c.events)
			}
		}
	}
}

// turn is a limiter that is a function.
type turn func(context.Context) error

func (t turn) Wait(ctx context.Context) error { return t(ctx) }

// TestPullsWaitForTheirTurn: each pull waits until the limit allows it, and a limit that cannot be waited for fails it.
func TestPullsWaitForTheirTurn(t *testing.T) {
	s := &store{has: map[string]bool{}}
	p := newPuller(t, s)
	var before []int // how many pulls there were when the next one waited
	p.Rate = turn(func(context.Context) error {
		before = append(before, len(s.pulls))
		return nil
	})
	for _, name := range []string{"a.b/c:1", "a.b/d:1", "a.b/e:1"} {
		if _, err, events := ask(p, Request{Name: name, PodUID: "u"}); err != nil {
			t.Errorf("%s: %v, events\n%s", name, err, events)
		}
	}
	if len(s.pulls) != 3 || !slices.Equal(before, []int{0, 1, 2}) {
		t.Errorf("%d pulls, which waited after %v", len(s.pulls), before)
	}

	p.Rate = turn(func(context.Context) error { return context.Canceled })
	if _, err, _ := ask(p, Request{Name: "a.b/f:1", PodUID: "u"}); err == nil || len(s.pulls) != 3 {
		t.Errorf("a pull that could not wait: %v, %d pulls", err, len(s.pulls))
	}
}

// TestBackoff: a failed pull is tried again after 10 s, 20 s and so on up to 300 s, for that pod and image only.
func TestBackoff(t *testing.T) {
	s := &store{has: map[string]bool{}, fail: status.Error(codes.Unknown, "no such thing")}
	p := newPuller(t, s)
	clock := time.Unix(0, 0)

	p.now = func() time.Time { return clock }
	r := Request{Name: "a.b/c:1", PodUID: "u"}
	wait := firstWait
	for range 7 {
		_, err, events := ask(p, r)
		if err == nil || err.Reason != ErrImagePull ||
			!strings.Contains(events,
				`Warning Failed: Failed to pull image "a.b/c:1": rpc error: code = Unknown desc = no such thing`) {
			t.Fatalf("error %+v, events\n%s", err, events)
		}
		_, err, events = ask(p, r)
		if err == nil || err.Reason != ImagePullBackOff || err.RetryAt.Sub(clock) != wait ||
			events != `Normal BackOff: Back-off pulling image "a.b/c:1"` {
			t.Fatalf("error %+v at %v, events\n%s", err, clock, events)
		}
		if want :=
			`Back-off pulling image "a.b/c:1": ErrImagePull: rpc error: code = Unknown desc = no such thing`; err.Error() != want {
			t.Errorf("text %q, want %q", err, want)
		}
		clock, wait = clock.Add(wait), min(2*wait, lastWait)
	}
	if _, err, _ := ask(p, Request{Name: "a.b/c:1", PodUID: "other"}); err == nil || err.Reason != ErrImagePull {
		t.Errorf("another pod: %+v", err)
	}
	p.Forget("u")
	if len(p.waits) != 1 {
		t.Errorf("waits %v, want only the other pod's", p.waits)
	}

	s.fail = status.Error(codes.Unavailable, "RegistryUnavailable: connection refused")
	if _, err, _ := ask(p, r); err == nil || err.Reason != ErrRegistry ||
		err.Error() != "image pull failed for a.b/c:1 because the registry is unavailable: connection refused" {
		t.Errorf("registry away: %+v", err)
	}
}

// TestSharedPull: two pods that want an image at the same time cause one pull.
func TestSharedPull(t *testing.T) {
	s := &store{has: map[string]bool{}, gate: make(chan struct{})}
	p := newPuller(t, s)
	var wg sync.WaitGroup
	began := make(chan struct{}, 2)
	for i := range 2 {
		wg.Go(func() {
			_, err := p.Ensure(context.Background(),
				Request{Name: "a.b/c:1", PodUID: fmt.Sprint(i), Event: func(_, reason, _ string) {
					if reason == "Pulling" {
						began <- struct{}{}
					}
				}})
			if err != nil {
				t.Error(err)
			}
		})
	}
	<-began
	<-began

	// both are past their event, and join before the gate opens
	testwait.True(t, 5*time.Second, "one pull", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.flights) == 1
	})
	close(s.gate)
	wg.Wait()
	if len(s.pulls) > 2 || len(p.flights) != 0 {
		t.Errorf("pulls %v, in flight %v", s.pulls, p.flights)
	}
}

func TestCredentials(t *testing.T) {
	login := func(user string) string {
		return fmt.Sprintf(`{"auth":%q}`, base64.StdEncoding.EncodeToString([]byte(user+":secret")))
	}
	secret := func(entries ...string) v1.Secret {
		return v1.Secret{Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(`{"auths":{` +
			strings.Join(entries, ",") + `}}`)}}
	}
	old := v1.Secret{Data: map[string][]byte{
		v1.DockerConfigKey: []byte(`{"https://index.docker.io/v1/":{"username":"hub","password":"p"}}`)}}

	for _, c := range []struct {
		image   string
		secrets []v1.Secret
		users   string
	}{
		{"reg.test/team/app:1", []v1.Secret{secret(`"reg.test":` + login("all"))}, "all"},
		{"reg.test/team/app:1",
			[]v1.Secret{secret(`"reg.test":`+login("all"), `"https://reg.test/team":`+login("team"),
				`"reg.test/other":`+login("other"))}, "team all"},
		{"docker.io/team/app", []v1.Secret{secret(`"https://index.docker.io/v1/":` + login("hub"))}, "hub"},
		{"team/app", []v1.Secret{secret(`"docker.io":`+login("name"), `"other.docker.io":`+login("no"))}, "name"},
		{"[fd00::5]:5000/app", []v1.Secret{secret(`"[fd00::5]:5000":` + login("six"))}, "six"},
		{"reg.test/app",
			[]v1.Secret{
				secret(`"reg.test":{"auth":"YTpi"},"reg.test/":{"auth":"dTpwYXNz"},"reg.test/a":{"auth":"YWE6Yg"}`)},
			"aa u a"},
		{"a.reg.test/app", []v1.Secret{secret(`"*.reg.test":` + login("star"))}, "star"},
		{"a.b.reg.test/app", []v1.Secret{secret(`"*.reg.test":` + login("star"))}, ""},
		{"reg.test:5000/app", []v1.Secret{secret(`"reg.test":`+login("plain"), `"reg.test:5000":`+login("port"))},
			"port"},
		{"busybox", []v1.Secret{old}, "hub"},
		{"busybox", []v1.Secret{{Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(`{"auths":`)}}, old}, "hub"},
	} {
		var users []string
		for _, a := range credentials(c.image, c.secrets) {
			users = append(users, a.Username)
		}
		if got := strings.Join(users, " "); got != c.users {
			t.Errorf("%s: logins %q, want %q", c.image, got, c.users)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"auths":{"reg.test":`+login("node")+`}}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	s := &store{has: map[string]bool{}}
	p := newPuller(t, s)
	p.NodeConfigs = []string{filepath.Join(dir, "absent"), dir}
	if _, err, _ := ask(p, Request{Name: "reg.test/app:1", PodUID: "u"}); err != nil || len(s.pulls) != 1 ||
		s.pulls[0] != "reg.test/app:1 node" {
		t.Errorf("with the node's login: %v, pulls %v", err, s.pulls)
	}
}

// TestHandler: the runtime is told for which of its handlers an image is, and pods of different handlers share no pull.
func TestHandler(t *testing.T) {
	s := &store{has: map[string]bool{}, gate: make(chan struct{})}
	p := newPuller(t, s)
	var asked sync.WaitGroup
	for _, handler := range []string{"", "kata", "kata", "runhcs-wcow-hypervisor"} {
		asked.Go(func() {
			if _, err, _ := ask(p, Request{Name: "a.b/c:1", Policy: v1.PullAlways, PodUID: "u" + handler,
				Handler: handler}); err != nil {
				t.Error(err)
			}
		})
	}
	testwait.True(t, 10*time.Second, "three pulls are under way", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.flights) == 3
	})
	close(s.gate)
	asked.Wait()
	slices.Sort(s.pulls)
	// A request may come after the pull that it could have shared.
	if want := "[a.b/c:1 a.b/c:1 for kata a.b/c:1 for runhcs-wcow-hypervisor]"; fmt.Sprint(
		slices.Compact(s.pulls)) != want {
		t.Errorf("pulled %v, want %s", s.pulls, want)
	}
}
