package ovnet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"porthole.dev/porthole/internal/retry"
)

// AgentAddress is where a node's agent answers its CNI plugin. ovn-kubernetes of 2018 had its server at this port of
// Windows nodes.
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

// waitQuery is how long the agent waits for the annotation of a pod before it answers that there is none, whoever asks.
const waitQuery = 20 * time.Second

// Ask asks the agent about a pod, and waits until the pod has its annotation.
func Ask(ctx context.Context, address string, q Question) (Answer, error) {
	values := url.Values{"namespace": {q.Namespace}, "name": {q.Name}, "uid": {q.UID}, "wait": {waitQuery.String()},
		"config": q.Config}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/pod?"+values.Encode(), nil)
	if err != nil {
		return Answer{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return Answer{}, fmt.Errorf(
			"asking this node's agent about pod %s/%s: is `porthole routes --mode ovn` running? %w", q.Namespace,
			q.Name, err)
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

// Any process of the host can ask, so that there are limits. mostAsked is how many questions are worked at: more than
// the 110 pods that a node has by default. mostWaiting is how many of these may wait for a pod's annotation. The rest
// is for pods that have theirs, which are answered at once.
const (
	mostAsked   = 128
	mostWaiting = 64
)

// lookAgain is when the agent looks for an annotation again that is not there yet. The first programs looked each 0.1
// s.
var lookAgain = retry.Backoff{First: 50 * time.Millisecond, Max: 5 * time.Second}

// desk answers questions.
type desk struct {
	look           func(ctx context.Context, namespace, name string) (Answer, error)
	asked, waiting chan struct{} // one element for each
	pace           pace
}

// Handler answers questions. look returns what is known about a pod at this moment, an Answer without annotation if it
// has none yet; noted is called with each remark on the configuration, of which there may be any number. Both may be
// called at once by many questions.
func Handler(look func(ctx context.Context, namespace, name string) (Answer, error),
	noted func(remark string)) http.Handler {
	d := &desk{look: look, asked: make(chan struct{}, mostAsked), waiting: make(chan struct{}, mostWaiting)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pod", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		for _, remark := range query["config"] {
			noted(remark)
		}

		answer, err := d.answer(r.Context(), query)
		switch {
		case errors.Is(err, errBusy):
			http.Error(w, err.Error(), http.StatusTooManyRequests)
			return
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		data, _ := json.Marshal(answer) // strings and numbers cannot fail
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		_, _ = w.Write(data) // a plugin that is gone asks again
	})
	return mux
}

// answer answers one question.
func (d *desk) answer(ctx context.Context, query url.Values) (Answer, error) {
	select {
	case d.asked <- struct{}{}:
		defer func() { <-d.asked }()
	default:
		return Answer{}, errBusy
	}
	wait, err := time.ParseDuration(query.Get("wait"))
	if err != nil {
		wait = 0
	}

	return d.await(ctx, min(max(wait, 0), waitQuery), func(ctx context.Context) (Answer, error) {
		if err := d.pace.wait(ctx); err != nil {
			return Answer{}, err
		}
		a, err := d.look(ctx, query.Get("namespace"), query.Get("name"))
		if uid := query.Get("uid"); err == nil && uid != "" && a.UID != uid {
			err = fmt.Errorf("the API server has another pod of that name: its UID is %s and not %s", a.UID, uid)
		}
		return a, err
	})
}

// await looks until there is an annotation that can be believed, or wait is over, or too many wait. The controller
// writes any other again.
func (d *desk) await(ctx context.Context, wait time.Duration, look func(context.Context) (Answer, error)) (Answer,
	error) {
	ctx, cancel := context.WithTimeout(ctx, wait+time.Second)
	defer cancel()
	end := time.After(wait)
	for looks := 1; ; looks++ {
		a, err := look(ctx)
		if err != nil && (looks == 1 || !errors.Is(err, errBusy)) {
			return a, err
		}
		missing := fmt.Errorf("the pod has no annotation %q", Annotation)
		if a.Annotation != "" {
			if _, _, _, missing = ParseAnnotation(a.Annotation); missing == nil {
				return a, nil
			}
		}
		if looks == 1 {
			select {
			case d.waiting <- struct{}{}:
				defer func() { <-d.waiting }()
			default:
				return a, fmt.Errorf("%w yet, and %d others wait for theirs: ask again", missing, mostWaiting)
			}
		}

		again := time.NewTimer(lookAgain.Wait(looks))
		select {
		case <-end:
			again.Stop()
			return a, fmt.Errorf("%w after %s: the controller (`porthole ovn-control-plane`) writes it; "+
				"is it running, and does it reach OVN's northbound database?", missing, wait)
		case <-ctx.Done():
			again.Stop()
			return a, ctx.Err()
		case <-again.C:
		}
	}
}
