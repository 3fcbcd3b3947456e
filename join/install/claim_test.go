package install

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	coordv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// leaseServer is an API server with at most one lease, which it changes only for whoever knows its version.
type leaseServer struct {
	mu     sync.Mutex
	lease  *coordv1.Lease
	writes int
	// before is called before a write is carried out; nil for nothing.
	before func()
}

func (s *leaseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && s.before != nil {
		before := s.before
		s.before = nil
		before()
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	var in coordv1.Lease
	switch r.Method {
	case http.MethodGet:
		if s.lease == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
	default:
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil ||
			(s.lease != nil) == (r.Method == http.MethodPost) ||
			s.lease != nil && in.ResourceVersion != s.lease.ResourceVersion {
			w.WriteHeader(http.StatusConflict)
			return
		}
		in.ResourceVersion += "x"
		s.lease = &in
		s.writes++
	}
	_ = json.NewEncoder(w).Encode(s.lease) // the client tells
}

// claimNode returns a node of that server.
func claimNode(t *testing.T, s *leaseServer, uuid string) *Node {
	t.Helper()
	n := nodeOf(t, "")
	server := httptest.NewTLSServer(s)
	t.Cleanup(server.Close)
	n.UUID, n.Cluster.Server = uuid, server.URL
	n.Cluster.CA = pemOf(server.Certificate().Raw)
	return n
}

// TestClaim: of many machines that take one name at the same moment, one gets it.
func TestClaim(t *testing.T) {
	for range 20 {
		s := &leaseServer{}
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for i, uuid := range []string{"a", "b", "c", "d"} {
			n := claimNode(t, s, uuid)
			wg.Go(func() { errs[i] = n.Claim(t.Context()) })
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			switch {
			case err == nil:
				won++
			case !strings.Contains(err.Error(), "node name win07 is used by another machine (systemUUID ") ||
				!strings.Contains(err.Error(), "--node-name"):
				t.Errorf("%v", err)
			}
		}
		if won != 1 || s.writes != 1 {
			t.Fatalf("%d machines have the name, %d writes", won, s.writes)
		}
	}
}

func TestClaimAgain(t *testing.T) {
	s := &leaseServer{}
	if err := claimNode(t, s, "A").Claim(t.Context()); err != nil || *s.lease.Spec.HolderIdentity != "win07" {
		t.Fatalf("%v, %+v", err, s.lease)
	}
	if err := claimNode(t, s, "a").Claim(t.Context()); err != nil || s.writes != 1 {
		t.Errorf("the same machine: %v, %d writes", err, s.writes)
	}

	// A machine that gave up long ago; a lease that a kubelet made without a claim; and a machine that is quicker in
	// that moment.
	old := metav1.NewMicroTime(time.Now().Add(-time.Hour))
	s.lease.Spec.RenewTime = &old
	if err := claimNode(t, s, "b").Claim(t.Context()); err != nil || s.lease.Annotations[claimant] != "b" {
		t.Errorf("after an hour: %v, %+v", err, s.lease)
	}
	s.lease.Annotations = nil
	if err := claimNode(t, s, "c").Claim(t.Context()); err != nil || s.lease.Annotations[claimant] != "c" {
		t.Errorf("without a claim: %v, %+v", err, s.lease)
	}
	s.lease.Annotations, s.before = nil, func() {
		if err := claimNode(t, s, "quicker").Claim(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := claimNode(t, s, "d").Claim(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "(systemUUID quicker)") {
		t.Errorf("another one was quicker: %v", err)
	}
}
