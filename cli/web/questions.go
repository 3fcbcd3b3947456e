package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/cli/origin"
	"porthole.dev/porthole/web/collect"
	"porthole.dev/porthole/web/model"
	"porthole.dev/porthole/web/serve"
)

// questions are those that the page asks, by path.
type questions struct {
	from      *origin.Origin
	collector *collect.Collector
	flags     origin.Flags
	// faults: the page may make HNS of emulated hosts fail.
	faults bool
}

func (q *questions) all() map[string]serve.Question {
	return map[string]serve.Question{
		"why":      q.why,
		"plots":    q.plots,
		"service":  q.service,
		"path":     q.path,
		"images":   q.images,
		"hosts":    q.hosts,
		"hosts/do": q.act,
		"wall":     func(context.Context, *http.Request) (any, error) { return q.collector.Wall(), nil },
	}
}

// why says what an object waits for.
func (q *questions) why(_ context.Context, r *http.Request) (any, error) {
	v := r.URL.Query()
	chain, err := model.Why(q.collector.Facts(), v.Get("kind"), v.Get("name"), time.Now())
	var unknown *model.UnknownName
	if errors.As(err, &unknown) {
		return nil, &serve.Misuse{Text: err.Error()}
	}
	return chain, err
}

// plots returns the series of the proxies' metrics.
func (q *questions) plots(context.Context, *http.Request) (any, error) {
	out := struct {
		Latency []model.LatencyPoint `json:"latency"`
		Calls   []model.CallPoint    `json:"calls"`
	}{[]model.LatencyPoint{}, []model.CallPoint{}}
	for node, samples := range q.collector.Samples() {
		out.Latency = append(out.Latency, model.Latency(node, samples)...)
		out.Calls = append(out.Calls, model.CallRates(node, samples)...)
	}
	return out, nil
}

// onNode is what one node says of a service.
type onNode struct {
	Node  string           `json:"node"`
	Error string           `json:"error,omitempty"`
	None  bool             `json:"none,omitempty"`
	Line  *model.ProxyLine `json:"line,omitempty"`
}

// service asks every node what it has programmed of one service.
func (q *questions) service(ctx context.Context, r *http.Request) (any, error) {
	name := r.URL.Query().Get("name")
	facts := q.collector.Facts()
	if !slices.ContainsFunc(facts.Services, func(s *v1.Service) bool { return s.Namespace+"/"+s.Name == name }) {
		return nil, &serve.Misuse{Text: "there is no service " + name}
	}
	out := make([]onNode, len(facts.Nodes))
	var tasks sync.WaitGroup
	for i, n := range facts.Nodes {
		tasks.Go(func() {
			out[i] = q.onNode(ctx, model.NodeRef{Name: n.Name, OS: n.Labels["kubernetes.io/os"]}, name)
		})
	}
	tasks.Wait()
	slices.SortFunc(out, func(a, b onNode) int { return strings.Compare(a.Node, b.Node) })
	return out, nil
}

func (q *questions) onNode(ctx context.Context, n model.NodeRef, service string) onNode {
	out := onNode{Node: n.Name}
	data, err := q.from.Nodes.Ask(ctx, n, collect.Proxy, "/status?service="+url.QueryEscape(service))
	if errors.Is(err, collect.ErrNone) {
		out.None = true
		return out
	}
	var document model.ProxyDocument
	if err == nil {
		err = json.Unmarshal(data, &document)
	}
	if err != nil {
		out.Error = err.Error()
		return out
	}
	for _, list := range [][]model.ProxyLine{document.Failed, document.Pending, document.Right, document.Unserved} {
		if len(list) > 0 && out.Line == nil {
			out.Line = &list[0]
		}
	}
	return out
}

// path follows a packet. A request that is posted sends one, too.
func (q *questions) path(ctx context.Context, r *http.Request) (any, error) {
	v := r.URL.Query()
	from := v.Get("from")
	to := v.Get("to")
	protocol := v.Get("protocol")
	if from == "" || to == "" {
		return nil, &serve.Misuse{Text: "both ends are needed: a pod, a node, a service or an address"}
	}
	args := []string{"path", "--output=json", "--protocol=" + protocol}
	if r.Method == http.MethodPost {
		if q.from.Hosts == nil {
			return nil, &serve.Misuse{
				Text: "probes are sent in local clusters only: this machine is none of this cluster's"}
		}
		args = append(args, "--probe")
	}
	return q.whole(ctx, append(args, "--", from, to)...)
}

// imagesShown bounds the table of images: each costs some requests to a registry.
const imagesShown = 40

// images says on which Windows nodes the images of the cluster's pods run.
func (q *questions) images(ctx context.Context, _ *http.Request) (any, error) {
	facts := q.collector.Facts()
	windows := map[string]bool{}
	for _, n := range facts.Nodes {
		windows[n.Name] = n.Labels["kubernetes.io/os"] == "windows"
	}
	var names []string
	for _, p := range facts.Pods {
		onWindows := windows[p.Spec.NodeName] || p.Spec.NodeSelector["kubernetes.io/os"] == "windows" ||
			p.Spec.OS != nil && p.Spec.OS.Name == "windows"
		for _, c := range p.Spec.Containers {
			if onWindows && !slices.Contains(names, c.Image) && len(names) < imagesShown {
				names = append(names, c.Image)
			}
		}
	}
	if len(names) == 0 {
		return []string{}, nil
	}
	slices.Sort(names)
	return q.whole(ctx, append([]string{"images", "check", "--keep-going", "--output=json", "--"}, names...)...)
}

// hostView is one emulated host.
type hostView struct {
	Name  string                     `json:"name"`
	Error string                     `json:"error,omitempty"`
	Parts map[string]json.RawMessage `json:"parts,omitempty"`
}

// hosts reads the HNS of each emulated host.
func (q *questions) hosts(ctx context.Context, _ *http.Request) (any, error) {
	out := struct {
		Allowed bool       `json:"allowed"`
		None    bool       `json:"none,omitempty"`
		Hosts   []hostView `json:"hosts"`
	}{Allowed: q.faults, Hosts: []hostView{}}
	if q.from.Hosts == nil {
		out.None = true
		return out, nil
	}
	names, err := q.from.Hosts.Names()
	if err != nil {
		return nil, err
	}

	out.Hosts = make([]hostView, len(names))
	var tasks sync.WaitGroup
	for i, name := range names {
		tasks.Go(func() { out.Hosts[i] = q.host(ctx, name) })
	}
	tasks.Wait()
	return out, nil
}

func (q *questions) host(ctx context.Context, name string) hostView {
	h := hostView{Name: name, Parts: map[string]json.RawMessage{}}
	for _, part := range []string{"stats", "latency", "faults", "service", "scenarios", "dump"} {
		data, err := q.from.Hosts.HNS(ctx, name, http.MethodGet, "/"+part, nil)
		if err != nil {
			h.Error = err.Error()
			return h
		}
		h.Parts[part] = data
	}
	return h
}

// acts are the requests that change what HNS of an emulated host does.
var acts = []string{"faults", "latency", "service", "scenario", "lose", "repair"}

// act makes HNS of an emulated host fail, or ends that.
func (q *questions) act(ctx context.Context, r *http.Request) (any, error) {
	if !q.faults {
		return nil, &serve.Misuse{Text: "this page only reads: start porthole web with --allow-faults"}
	}
	var a struct {
		Host, Act string
		Body      json.RawMessage
		Text      string
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &a)
	}
	if err != nil || r.Method != http.MethodPost || !slices.Contains(acts, a.Act) {
		return nil, &serve.Misuse{Text: fmt.Sprintf("not understood; known are %s", strings.Join(acts, ", "))}
	}
	data, err := q.from.Hosts.HNS(ctx, a.Host, http.MethodPost, "/"+a.Act, a.Body)
	if err != nil {
		return nil, &serve.Misuse{Text: err.Error()}
	}
	q.collector.Note("node/"+a.Host, "HNS: "+a.Text)
	return json.RawMessage(data), nil
}
