package ovnet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// AgentAddress is where a node's agent answers its CNI plugin. ovn-kubernetes of 2018 had its server at this port of Windows nodes.
const AgentAddress = "127.0.0.1:3996"

// Question is what the plugin asks about one pod.
type Question struct {
	Namespace, Name string
	UID             string // "": the runtime did not say
	// Config are remarks on the plugin's configuration, which the agent logs once and the runtime would hide.
	Config []string
}

// Answer is what the agent tells the plugin.
type Answer struct {
	UID        string `json:"uid"`
	Annotation string `json:"annotation"`
	MTU        int    `json:"mtu"` // of pods
	// Network is the HNS network of the pods; "" on Linux.
	Network string `json:"network,omitempty"`
}

// waitQuery is how long the agent waits for the annotation of a pod before it answers that there is none.
const waitQuery = 20 * time.Second

// Ask asks the agent about a pod, and waits until the pod has its annotation.
func Ask(ctx context.Context, address string, q Question) (Answer, error) {
	values := url.Values{"namespace": {q.Namespace}, "name": {q.Name}, "uid": {q.UID}, "wait": {waitQuery.String()}, "config": q.Config}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/pod?"+values.Encode(), nil)
	if err != nil {
		return Answer{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return Answer{}, fmt.Errorf("asking this node's agent about pod %s/%s: is `porthole routes --mode ovn` running? %w", q.Namespace, q.Name, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return Answer{}, fmt.Errorf("asking this node's agent about pod %s/%s: %w", q.Namespace, q.Name, err)
	}
	if resp.StatusCode != http.StatusOK {
		return Answer{}, fmt.Errorf("this node's agent about pod %s/%s: %s", q.Namespace, q.Name, body)
	}
	var a Answer
	if err := json.Unmarshal(body, &a); err != nil {
		return a, fmt.Errorf("reading the agent's answer about pod %s/%s: %w", q.Namespace, q.Name, err)
	}
	return a, nil
}

// lookAgain is how often the agent looks for an annotation that is not there yet. The first programs looked each 0.1 s.
const lookAgain = 50 * time.Millisecond

// Handler answers questions. look returns what is known about a pod at this moment, an Answer without annotation if it has none yet;
// noted is called with each remark on the configuration.
func Handler(look func(ctx context.Context, namespace, name string) (Answer, error), noted func(remark string)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pod", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		for _, remark := range query["config"] {
			noted(remark)
		}
		wait, err := time.ParseDuration(query.Get("wait"))
		if err != nil {
			wait = 0
		}

		answer, err := await(r.Context(), wait, func(ctx context.Context) (Answer, error) {
			a, err := look(ctx, query.Get("namespace"), query.Get("name"))
			if uid := query.Get("uid"); err == nil && uid != "" && a.UID != uid {
				err = fmt.Errorf("the API server has another pod of that name: its UID is %s and not %s", a.UID, uid)
			}
			return a, err
		})
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		data, _ := json.Marshal(answer) // strings and numbers cannot fail
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		w.Write(data)
	})
	return mux
}

// await looks until there is an annotation, or wait is over.
func await(ctx context.Context, wait time.Duration, look func(context.Context) (Answer, error)) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+time.Second)
	defer cancel()
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	end := time.After(wait)
	for {
		a, err := look(ctx)
		if err != nil || a.Annotation != "" {
			return a, err
		}
		select {
		case <-end:
			return a, fmt.Errorf("the pod has no annotation %q after %s: the controller (`porthole ovn-control-plane`) writes it; "+
				"is it running, and does it reach OVN's northbound database?", Annotation, wait)
		case <-ctx.Done():
			return a, ctx.Err()
		case <-ticker.C:
		}
	}
}
