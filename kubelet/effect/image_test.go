package effect

import (
	"context"
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/kubelet/credential"
	"porthole.dev/porthole/kubelet/image"
	"porthole.dev/porthole/kubelet/pod"
)

// oneClass has the RuntimeClass "vm".
type oneClass struct{ Objects }

func (oneClass) RuntimeClass(_ context.Context, name string) (*nodev1.RuntimeClass, error) {
	if name != "vm" {
		return nil, errors.New("not found")
	}
	return &nodev1.RuntimeClass{Handler: "runhcs-wcow-hypervisor"}, nil
}

// TestImageForItsHandler: images are asked for with the handler of the pod's RuntimeClass, on every system.
// Row 1.99.
func TestImageForItsHandler(t *testing.T) {
	e := For("u", &Options{Objects: oneClass{}})
	for class, want := range map[string]image.Request{
		"":       {},
		"vm":     {Handler: "runhcs-wcow-hypervisor"},
		"absent": {HandlerUnknown: true},
	} {
		p := &v1.Pod{Spec: v1.PodSpec{RuntimeClassName: &class, Containers: []v1.Container{{Name: "c"}}}}
		var r image.Request
		e.addHandler(t.Context(), Job{Action: pod.Action{Name: "c"}, Pod: p}, &r)
		if r.Handler != want.Handler || r.HandlerUnknown != want.HandlerUnknown {
			t.Errorf("class %q: handler %q, unknown %v; want %+v", class, r.Handler, r.HandlerUnknown, want)
		}
	}
}

// TestCredentialPod: programs that know logins are told whose pod it is.
func TestCredentialPod(t *testing.T) {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u"},
		Spec: v1.PodSpec{ServiceAccountName: "s"}}
	if got, want := credentialPod(p), (credential.Pod{Namespace: "n", Name: "p", UID: "u", Account: "s"}); got != want {
		t.Errorf("%+v", got)
	}
}
