package image

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/registry"
	"porthole.dev/porthole/internal/testkit/bubble"
	"porthole.dev/porthole/internal/winbuild"
)

// node is a Windows node of amd64.
func node(name string, build winbuild.Build) winbuild.Host {
	return winbuild.Host{Name: name, Version: winbuild.Version{Build: build, Revision: -1}, Architecture: "amd64"}
}

// index is an image for some builds.
func index(builds ...winbuild.Build) winbuild.Image {
	i := winbuild.Image{Index: true}
	for _, b := range builds {
		i.Platforms = append(i.Platforms,
			winbuild.Platform{OS: "windows", Architecture: "amd64", Version: fmt.Sprintf("10.0.%d.1", b)})
	}
	return i
}

// registryOf answers every question alike.
func registryOf(image winbuild.Image, err error) func(context.Context, string, registry.Login) (winbuild.Image, error) {
	return func(context.Context, string, registry.Login) (winbuild.Image, error) { return image, err }
}

// TestNoPullThatCannotSucceed: what the node cannot run is refused before the pull, with upstream's reasons and
// back-off; what is not known is pulled.
// Rows 1.99, 1.101, 1.102.
func TestNoPullThatCannotSucceed(t *testing.T) {
	cluster := func(context.Context) ([]winbuild.Host, error) {
		return []winbuild.Host{node("win01", winbuild.Server2022), node("win02", winbuild.Server2019),
			node("win03", winbuild.Server2025)}, nil
	}
	withHyperV := func(context.Context) []string {
		return []string{"", "runhcs-wcow-process", "runhcs-wcow-hypervisor"}
	}
	withoutHyperV := func(context.Context) []string { return []string{"", "runhcs-wcow-process"} }
	forbidden := func(context.Context) ([]winbuild.Host, error) {
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("no"))
	}

	for _, c := range []struct {
		name   string
		builds *Builds
		r      Request
		says   []string // of the event; none: it is pulled
	}{
		{"the node's build", &Builds{Registry: registryOf(index(winbuild.Server2022), nil)}, Request{}, nil},
		{"an older build", &Builds{Registry: registryOf(index(winbuild.Server2019), nil), Nodes: cluster}, Request{},
			[]string{
				"it was not pulled, because it is for Windows build 17763 (Windows Server 2019); ",
				"node win01 is build 20348 (Windows Server 2022) and runs images of build 20348 (Windows Server 2022); ",
				"an image of an older build needs Hyper-V isolation; a RuntimeClass with such a handler gives it, if the runtime has one; ",
				"nodes that run it: win02 (build 17763)"}},
		{"a newer build", &Builds{Registry: registryOf(index(winbuild.Server2025), nil), Nodes: cluster}, Request{},
			[]string{
				"an image of a newer build than the host's runs in no isolation; nodes that run it: win03 (build 26100)"}},
		{"nowhere", &Builds{Registry: registryOf(index(winbuild.Server1709), nil), Nodes: cluster,
			Handlers: withoutHyperV}, Request{}, []string{
			"the runtime has no handler that gives it, only runhcs-wcow-process; no Windows node of the cluster runs it"}},
		{"a class would help", &Builds{Registry: registryOf(index(winbuild.Server2019), nil), Handlers: withHyperV},
			Request{}, []string{
				"a RuntimeClass with the handler runhcs-wcow-hypervisor gives it; there is no cluster with other nodes"}},
		{"a class helps", &Builds{Registry: registryOf(index(winbuild.Server2019), nil), Handlers: withHyperV},
			Request{Handler: "runhcs-wcow-hypervisor"}, nil},
		{"a class whose handler the runtime lacks",
			&Builds{Registry: registryOf(index(winbuild.Server2019), nil), Handlers: withoutHyperV},
			Request{Handler: "runhcs-wcow-hypervisor"}, []string{
				"the handler runhcs-wcow-hypervisor of the pod's RuntimeClass would give it, but the runtime has only runhcs-wcow-process"}},
		{"a class whose handler may be there", &Builds{Registry: registryOf(index(winbuild.Server2019), nil)},
			Request{Handler: "runhcs-wcow-hypervisor"}, nil},
		{"a handler of another kind", &Builds{Registry: registryOf(index(winbuild.Server2019), nil)},
			Request{Handler: "runsc"}, nil},
		{"a class that cannot be read", &Builds{Registry: registryOf(index(winbuild.Server2019), nil)},
			Request{HandlerUnknown: true}, nil},
		{"nodes that may not be listed",
			&Builds{Registry: registryOf(index(winbuild.Server2019), nil), Nodes: forbidden}, Request{}, []string{
				"which other nodes run it is not known: this kubelet may not list nodes"}},
		{"a registry that fails", &Builds{Registry: registryOf(winbuild.Image{}, errors.New("away"))}, Request{}, nil},
		{"no version",
			&Builds{Registry: registryOf(winbuild.Image{Index: true,
				Platforms: []winbuild.Platform{{OS: "windows", Architecture: "amd64"}}}, nil)}, Request{}, nil},
		{"Linux only",
			&Builds{Registry: registryOf(winbuild.Image{Index: true,
				Platforms: []winbuild.Platform{{OS: "linux", Architecture: "amd64"}}}, nil), Nodes: cluster}, Request{},
			[]string{
				"it is for linux/amd64; ", "no Windows node of the cluster runs it"}},
	} {
		s := &store{has: map[string]bool{}}
		p := newPuller(t, s)
		clock := time.Unix(0, 0)
		p.now = func() time.Time { return clock }
		c.builds.Node = node("win01", winbuild.Server2022)
		p.Builds = c.builds
		c.r.Name, c.r.PodUID, c.r.Policy = "a.b/c:1", "u", v1.PullAlways

		_, err, events := ask(p, c.r)
		if len(c.says) == 0 {
			if err != nil || len(s.pulls) != 1 || !strings.HasPrefix(events, "Normal Pulling: ") {
				t.Errorf("%s: error %v, pulls %v, events\n%s", c.name, err, s.pulls, events)
			}
			continue
		}
		if err == nil || err.Reason != ErrImagePull || len(s.pulls) != 0 ||
			!strings.HasPrefix(events, `Warning Failed: Failed to pull image "a.b/c:1": it was not pulled`) {
			t.Errorf("%s: error %+v, pulls %v, events\n%s", c.name, err, s.pulls, events)
		}
		for _, want := range c.says {
			if !strings.Contains(events, want) {
				t.Errorf("%s: events lack %q\n%s", c.name, want, events)
			}
		}
		if _, err, events = ask(p, c.r); err == nil || err.Reason != ImagePullBackOff ||
			events != `Normal BackOff: Back-off pulling image "a.b/c:1"` {
			t.Errorf("%s, again: error %+v, events\n%s", c.name, err, events)
		}

		clock = clock.Add(firstWait) // somebody has pushed an image of the node's build meanwhile
		c.builds.Registry = registryOf(index(winbuild.Server2022), nil)
		if _, err, events = ask(p, c.r); err != nil || len(s.pulls) != 1 {
			t.Errorf("%s, once there is one that fits: error %+v, events\n%s", c.name, err, events)
		}
	}
}

// TestVariantByItself: the runtime takes nothing of an index whose only variants are older, with a handler of Hyper-V
// isolation too; the event says what to name. It does not if the cause is another, if the variant would not run, or if
// the registry does not say.
// Row 1.99.
func TestVariantByItself(t *testing.T) {
	none := errors.New("failed to resolve: no match for platform in manifest sha256:1: not found")
	older := index(winbuild.Server2019)
	older.Platforms[0].Digest = "sha256:" + strings.Repeat("a", 64)
	single := winbuild.Image{Platforms: older.Platforms}

	for name, c := range map[string]struct {
		fails   error
		image   winbuild.Image
		away    error
		handler string
		says    bool
	}{
		"older":            {none, older, nil, "runhcs-wcow-hypervisor", true},
		"another cause":    {errors.New("no space"), older, nil, "runhcs-wcow-hypervisor", false},
		"no index":         {none, single, nil, "runhcs-wcow-hypervisor", false},
		"no answer":        {none, older, errors.New("away"), "runhcs-wcow-hypervisor", false},
		"another handler":  {none, older, nil, "runsc", false},
		"no digest":        {none, index(winbuild.Server2019), nil, "runhcs-wcow-hypervisor", false},
		"fits in any case": {nil, index(winbuild.Server2022), nil, "runhcs-wcow-hypervisor", false},
	} {
		p := newPuller(t, &store{has: map[string]bool{}, fail: c.fails})
		p.Builds = &Builds{Node: node("win01", winbuild.Server2022), Registry: registryOf(c.image, c.away)}

		_, err, events := ask(p, Request{Name: "a.b/c:1", PodUID: "u", Policy: v1.PullAlways, Handler: c.handler})
		if (err == nil) != (c.fails == nil) {
			t.Errorf("%s: %v", name, err)
		}
		if said := strings.Contains(events,
			"name the variant windows/amd64 10.0.17763.1 by itself, a.b/c@sha256:aaaa"); said != c.says {
			t.Errorf("%s: events\n%s", name, events)
		}
	}
}

// TestOneQuestion: many pods with one image cause one question, and each gets its event.
func TestOneQuestion(t *testing.T) {
	gate := make(chan struct{})
	var mu sync.Mutex
	questions := 0
	p := newPuller(t, &store{has: map[string]bool{}})
	p.Builds = &Builds{Node: node("win01", winbuild.Server2022),
		Registry: func(context.Context, string, registry.Login) (winbuild.Image, error) {
			<-gate
			mu.Lock()
			defer mu.Unlock()
			questions++
			return index(winbuild.Server2019), nil
		}}

	var refused sync.WaitGroup
	var asked sync.WaitGroup
	for i := range 10 {
		asked.Add(1)
		refused.Go(func() {
			r := Request{Name: "a.b/c:1", PodUID: fmt.Sprint(i)}
			p.share(context.Background(), r.Name, r) // joins, so that all are there before the answer
			asked.Done()
			if _, err, events := ask(p, r); err == nil || !strings.Contains(events, "Failed: ") ||
				strings.Contains(events, "Pulling") {
				t.Errorf("error %v, events %s", err, events)
			}
		})
	}
	asked.Wait()
	close(gate)
	refused.Wait()
	if questions > 11 { // those that came after the answer asked again
		t.Errorf("%d questions", questions)
	}
}

// TestLogins: each login is tried until the registry lets one in.
func TestLogins(t *testing.T) {
	var tried []string
	b := Builds{Node: node("win01", winbuild.Server2022),
		Registry: func(_ context.Context, _ string, login registry.Login) (winbuild.Image, error) {
			tried = append(tried, login.Username)
			if login.Username != "second" {
				return winbuild.Image{}, errors.New("unauthorized")
			}
			return index(winbuild.Server2019), nil
		}}
	if b.check(context.Background(), "a.b/c:1",
		[]*cri.AuthConfig{{Username: "first"}, {Username: "second"}, {Username: "third"}}, want{}) == nil ||
		strings.Join(tried, " ") != "first second" {
		t.Errorf("tried %v", tried)
	}
}

// TestSlowRegistry: a registry that does not answer holds up one pull for five seconds, and none in the minute after
// that.
func TestSlowRegistry(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		questions := 0
		b := Builds{Node: node("win01", winbuild.Server2022),
			Registry: func(ctx context.Context, _ string, _ registry.Login) (winbuild.Image, error) {
				questions++
				<-ctx.Done()
				return winbuild.Image{}, ctx.Err()
			}}
		took := func(name string) time.Duration {
			began := time.Now()
			if err := b.check(context.Background(), name, nil, want{}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			return time.Since(began)
		}

		if d := took("a.b/c:1"); d != askTimeout {
			t.Errorf("the first took %v", d)
		}
		if d := took("a.b/d:1"); d != 0 {
			t.Errorf("the second took %v", d)
		}
		if d := took("other.b/d:1"); d != askTimeout {
			t.Errorf("another registry took %v", d)
		}
		time.Sleep(awayFor)
		if d := took("a.b/c:1"); d != askTimeout || questions != 3 {
			t.Errorf("after a minute it took %v, %d questions", d, questions)
		}
	})
}

// TestExplain: the runtime's words for an image of another build get the builds that would fit; other errors stay.
func TestExplain(t *testing.T) {
	p := newPuller(t, &store{})
	p.Builds = &Builds{Node: node("win01", winbuild.Server2025)}
	err := p.Explain(errors.New(
		"hcs::CreateComputeSystem x: The container operating system does not match the host operating system.: unknown"))
	if !strings.Contains(err.Error(),
		"node win01, which is build 26100 (Windows Server 2025) and runs images of build 20348 (Windows Server 2022), 25398 ") {
		t.Errorf("error %v", err)
	}
	other := errors.New("no such program")
	if got := p.Explain(other); !errors.Is(got, other) || got.Error() != other.Error() {
		t.Errorf("another error: %v", got)
	}
}
