package static

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/loop"
)

// URL is a web address that gives a Pod or a PodList.
type URL struct {
	Address string
	// Header is sent with each request; may be nil.
	Header http.Header
	Node   string
	// Period is how often the address is asked. Required.
	Period time.Duration

	last []byte
}

// urlTimeout bounds one request, as upstream's kubelet does.
const urlTimeout = 10 * time.Second

// Run delivers the pods once they were read, and whenever they have changed, until ctx ends. While the address does not
// answer, or answers with something else, the pods stay as they are, and refused gets the reason.
func (u *URL) Run(ctx context.Context, deliver func([]*v1.Pod), refused func(place string, err error)) {
	client := &http.Client{Timeout: urlTimeout}
	said := ""
	loop.Loop{Period: u.Period, Pass: func(ctx context.Context) error {
		pods, changed, err := u.read(ctx, client)
		switch {
		case err == nil:
			said = ""
			if changed {
				deliver(pods)
			}
		case ctx.Err() == nil && err.Error() != said:
			said = err.Error()
			if refused != nil {
				refused(u.Address, err)
			}
		}
		return err
	}}.Run(ctx)
}

// read asks the address once. changed is false if the answer is the same as the last one that could be used; then pods
// is nil. It reads one byte more than allowed, so that a manifest that is too large cannot be parsed instead of being
// cut off silently.
func (u *URL) read(ctx context.Context, client *http.Client) (pods []*v1.Pod, changed bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.Address, nil)
	if err != nil {
		return nil, false, fmt.Errorf("asking for static pods: %w", err)
	}

	for name, values := range u.Header {
		req.Header[name] = values
	}

	resp, err := client.Do(req)
	if err != nil {
		return nil, false, fmt.Errorf("asking for static pods: %w", err)
	}

	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxManifest+1))
	if err != nil {
		return nil, false, fmt.Errorf("reading static pods: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, false, fmt.Errorf("asking for static pods: %s", resp.Status)
	}
	if len(data) == 0 {
		return nil, false, errors.New("asking for static pods: the answer is empty")
	}
	if bytes.Equal(data, u.last) {
		return nil, false, nil
	}

	pods, unknown, err := Parse(data, Origin{Kind: "http", Place: u.Address, Node: u.Node})
	if err != nil {
		return nil, false, err
	}

	for _, f := range unknown {
		klog.FromContext(ctx).Info("A manifest has a field that is not known", "file", u.Address, "field", f)
	}

	u.last = data
	return pods, true, nil
}
