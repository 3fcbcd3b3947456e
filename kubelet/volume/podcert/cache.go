// Package podcert requests certificates for pods and holds them, with their keys, until they are to be renewed.
package podcert

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/wakeup"
)

// issueWait is how long the first preparation of a volume waits for its certificate, so that the pod need not wait for
// a repetition. Signers that are programs answer within a second.
const issueWait = 5 * time.Second

// errNotIssued has upstream's words.
var errNotIssued = errors.New("credential bundle is not issued yet")

// Key identifies a certificate among those of one pod.
type Key struct {
	Volume string
	Index  int // of the source
}

// Cache holds the certificates of one pod. It is safe for concurrent use.
type Cache struct {
	// Renewed: the state of a certificate has changed, so the next one is due at another time.
	Renewed wakeup.Signal

	mu      sync.Mutex
	states  map[Key]certState
	changed chan struct{} // closed when the watch has something new, and then replaced
}

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{Renewed: wakeup.New(), states: map[Key]certState{}, changed: make(chan struct{})}
}

// Tell says that a request of this node has changed.
func (c *Cache) Tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
}

// Clear drops all certificates.
func (c *Cache) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.states)
}

// Next returns when something is due, false if nothing is.
func (c *Cache) Next() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var due []time.Time
	for _, s := range c.states {
		if at, ok := s.next(); ok {
			due = append(due, at)
		}
	}
	return earliest(due...)
}

// Asker is what certificates are asked for with.
type Asker struct {
	API API
	Now func() time.Time
	// Event records an event about a pod; optional.
	Event func(pod *v1.Pod, eventType, reason, message string)
}

// wanted is one certificate that something is done about.
type wanted struct {
	*Cache
	Asker
	pod        *v1.Pod
	key        Key
	projection *v1.PodCertificateProjection
}

// Get returns the private key and the chain of certificates of a pod as PEM. If there is none yet it waits for a
// moment. One certificate is asked for by one caller at a time: those who change a pod's volumes wait for each other.
func (c *Cache) Get(ctx context.Context, from Asker, pod *v1.Pod, at Key,
	s *v1.PodCertificateProjection) (key, chain []byte, err error) {
	return wanted{Cache: c, Asker: from, pod: pod, key: at, projection: s}.get(ctx)
}

// get is that of the cache.
func (a wanted) get(ctx context.Context) (key, chain []byte, err error) {
	timer := time.NewTimer(issueWait)
	defer timer.Stop()
	for {
		a.mu.Lock()
		s, changed := a.states[a.key], a.changed
		a.mu.Unlock()
		s, acted, err := a.advance(ctx, s)
		if acted {
			a.mu.Lock()
			a.states[a.key] = s
			a.mu.Unlock()
			a.Renewed.Wake()
		}

		switch {
		case s.refused != nil:
			return nil, nil, s.refused
		case s.held != nil:
			if err != nil { // what is held is good until its end
				klog.FromContext(ctx).Error(err, "Keeping the pod's certificate that could not be renewed", "pod",
					klog.KObj(a.pod), "volume", a.key.Volume, "expires", s.held.expires)
			}
			return s.held.key, s.held.chain, nil
		case err != nil:
			return nil, nil, err
		}

		select {
		case <-changed:
		case <-timer.C:
			return nil, nil, errNotIssued
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// advance does what is to be done now about a certificate, and returns its state then. acted reports whether that is
// another one.
func (a wanted) advance(ctx context.Context, s certState) (_ certState, acted bool, err error) {
	for {
		var request *certificatesv1beta1.PodCertificateRequest
		known, name := false, ""
		if s.asked != nil {
			name = s.asked.name
			request, known = a.API.CertificateRequest(ctx, a.pod.Namespace, name)
			if request != nil && !s.asked.seen {
				s.asked = &certAsked{name: name, key: s.asked.key, lost: s.asked.lost, seen: true}
				acted = true
			}
		}

		plan := planCertificate(s, request, known, a.Now())
		klog.FromContext(ctx).V(4).
			Info("Plan of a pod's certificate", "pod", klog.KObj(a.pod), "volume", a.key.Volume, "request", name,
				"plan", plan.String())
		for _, e := range plan.events(a.pod.Namespace, name) {
			if a.Event != nil {
				a.Event(a.pod, v1.EventTypeWarning, e.reason, e.message)
			}
		}
		if plan.overdue || plan.expired {
			h := *s.held
			h.overdue = h.overdue || plan.overdue
			h.expired = h.expired || plan.expired
			s.held, acted = &h, true
		}

		switch plan.step {
		case certWait:
			return s, acted, nil
		case certForget:
			s.asked, acted = nil, true
		case certRefuse:
			return certState{refused: plan.refusal()}, true, nil
		case certTake:
			held, err := taken(s.asked.key, request)
			if err != nil {
				return s, acted, err
			}
			return certState{held: held}, true, nil
		case certAsk:
			asked, err := a.ask(ctx)
			if err != nil {
				return s.postponed(a.Now()), true, fmt.Errorf("requesting a certificate of %s: %w",
					a.projection.SignerName, err)
			}
			s.asked, acted = asked, true
		}
	}
}

// postponed is s after a request that failed. The first one is repeated by those who prepare the pod.
func (s certState) postponed(now time.Time) certState {
	if s.held != nil {
		h := *s.held
		h.again = now.Add(Again)
		s.held = &h
	}
	return s
}

// taken is the certificate of a request that was answered. The API server has checked that the times are there.
func taken(key []byte, r *certificatesv1beta1.PodCertificateRequest) (*certHeld, error) {
	if r.Status.BeginRefreshAt == nil || r.Status.NotAfter == nil {
		return nil, fmt.Errorf("PodCertificateRequest %s has no time of its certificate's end or renewal", r.Name)
	}
	return &certHeld{key: key, chain: onlyCertificates(r.Status.CertificateChain), expires: r.Status.NotAfter.Time,
		refresh: r.Status.BeginRefreshAt.Add(rand.N(Jitter))}, nil
}

// ask makes a key and requests a certificate for it.
func (a wanted) ask(ctx context.Context) (*certAsked, error) {
	account, err := a.API.ServiceAccount(ctx, a.pod.Namespace, a.pod.Spec.ServiceAccountName)
	if err != nil {
		return nil, fmt.Errorf("reading service account %s: %w", a.pod.Spec.ServiceAccountName, err)
	}
	node, err := a.API.GetNode(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the node: %w", err)
	}
	key, proof, err := newKey(a.projection.KeyType)
	if err != nil {
		return nil, err
	}

	made, err := a.API.CreateCertificateRequest(ctx, &certificatesv1beta1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.pod.Namespace, GenerateName: "req-",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: a.pod.Name,
				UID: a.pod.UID}}},
		Spec: certificatesv1beta1.PodCertificateRequestSpec{
			SignerName: a.projection.SignerName, MaxExpirationSeconds: a.projection.MaxExpirationSeconds,
			StubPKCS10Request: proof,
			PodName:           a.pod.Name, PodUID: a.pod.UID, ServiceAccountName: account.Name,
			ServiceAccountUID: account.UID,
			NodeName:          types.NodeName(node.Name), NodeUID: node.UID,
			UnverifiedUserAnnotations: a.projection.UserAnnotations,
		},
	})
	if err != nil {
		return nil, err
	}
	return &certAsked{name: made.Name, key: key, lost: a.Now().Add(certLost + rand.N(Jitter))}, nil
}

// API requests certificates of pods; internal/kube implements it.
type API interface {
	ServiceAccount(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error)
	GetNode(ctx context.Context) (*v1.Node, error)
	CreateCertificateRequest(ctx context.Context,
		r *certificatesv1beta1.PodCertificateRequest) (*certificatesv1beta1.PodCertificateRequest, error)
	// CertificateRequest returns a request as the watch of this node's requests has it; nil if it has none of that
	// name. known is false if that cannot be told, as there is no watch or it has no first state yet. The result is
	// shared: do not change it.
	CertificateRequest(ctx context.Context, namespace, name string) (r *certificatesv1beta1.PodCertificateRequest,
		known bool)
}

// StateOf returns the state of a certificate in upstream's words.
func (c *Cache) StateOf(key Key, now time.Time) string {
	c.mu.Lock()
	s := c.states[key]
	c.mu.Unlock()
	switch h := s.held; {
	case s.refused != nil && strings.Contains(s.refused.Error(), "denied"):
		return "denied"
	case s.refused != nil:
		return "failed"
	case h == nil:
		return "not_yet_issued"
	case now.After(h.expires):
		return "expired"
	case now.After(h.refresh.Add(Overdue)):
		return "overdue_for_refresh"
	}
	return "fresh"
}
