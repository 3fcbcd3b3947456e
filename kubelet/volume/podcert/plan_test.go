package podcert

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPlanCertificate: what is done about a certificate in each of its states.
func TestPlanCertificate(t *testing.T) {
	at := func(minutes int) time.Time { return time.Date(2030, 1, 1, 0, minutes, 0, 0, time.UTC) }
	held := certHeld{refresh: at(60), expires: at(90)}
	told := certHeld{refresh: at(60), expires: at(90), overdue: true, expired: true}
	answer := func(kind string) *certificatesv1beta1.PodCertificateRequest {
		r := &certificatesv1beta1.PodCertificateRequest{}
		if kind != "" {
			r.Status.Conditions = []metav1.Condition{{Type: kind, Reason: "Why", Message: "so"}}
		}
		return r
	}
	for title, c := range map[string]struct {
		state   certState
		request *certificatesv1beta1.PodCertificateRequest
		known   bool
		now     int
		want    string
	}{
		"nothing yet": {want: "ask"},
		"asked, and not seen": {state: certState{asked: &certAsked{lost: at(10)}}, known: true, now: 9,
			want: "wait"},
		"asked, and never seen": {state: certState{asked: &certAsked{lost: at(10)}}, known: true, now: 11,
			want: "forget the request"},
		"asked, no watch": {state: certState{asked: &certAsked{lost: at(10), seen: true}}, now: 9,
			want: "wait"},
		"asked, seen and gone": {state: certState{asked: &certAsked{lost: at(10), seen: true}}, known: true,
			now: 1, want: "forget the request"},
		"asked, pending long": {state: certState{asked: &certAsked{lost: at(10), seen: true}}, known: true,
			request: answer(""), now: 99, want: "wait"},
		"issued": {state: certState{asked: &certAsked{lost: at(10)}}, known: true,
			request: answer("Issued"), want: "take"},
		"denied": {state: certState{asked: &certAsked{lost: at(10)}}, known: true,
			request: answer("Denied"), want: "refuse (Denied, Why: so)"},
		"failed": {state: certState{asked: &certAsked{lost: at(10)}}, known: true,
			request: answer("Failed"), want: "refuse (Failed, Why: so)"},
		"refused is final": {state: certState{refused: errNotIssued}, now: 99, want: "wait"},
		"held":             {state: certState{held: &held}, now: 59, want: "wait"},
		"time to refresh":  {state: certState{held: &held}, now: 60, want: "ask"},
		"asking has failed": {
			state: certState{held: &certHeld{refresh: at(60), expires: at(90), again: at(63)}}, now: 62, want: "wait"},
		"asking has failed a while ago": {
			state: certState{held: &certHeld{refresh: at(60), expires: at(90), again: at(63)}}, now: 63, want: "ask"},
		"asked again": {state: certState{held: &held, asked: &certAsked{lost: at(70)}}, now: 70,
			want: "wait"},
		"refresh is overdue": {state: certState{held: &held, asked: &certAsked{lost: at(99), seen: true}},
			known: true, request: answer(""), now: 71, want: "wait, say that it is overdue"},
		"refresh is overdue, and lost": {state: certState{held: &held, asked: &certAsked{lost: at(70)}}, now: 71,
			want: "forget the request, say that it is overdue"},
		"expired": {state: certState{held: &held, asked: &certAsked{lost: at(99)}}, now: 91,
			want: "wait, say that it is overdue, say that it is expired"},
		"each is said once": {state: certState{held: &told, asked: &certAsked{lost: at(99)}}, now: 91,
			want: "wait"},
		"issued after it had expired": {state: certState{held: &held, asked: &certAsked{lost: at(99)}},
			request: answer("Issued"), now: 91, want: "take"},
		"the API server away, overdue": {state: certState{held: &held}, now: 71, want: "ask, say that it is overdue"},
		"denied when it was to be anew": {state: certState{held: &held, asked: &certAsked{lost: at(99)}},
			request: answer("Denied"), now: 61, want: "refuse (Denied, Why: so)"},
	} {
		if got := planCertificate(c.state, c.request, c.known, at(c.now)).String(); got != c.want {
			t.Errorf("%s: %s, want %s", title, got, c.want)
		}
	}

	for title, c := range map[string]struct {
		state certState
		want  int // minutes; -1 for never
	}{
		"nothing yet":   {certState{}, -1},
		"refused":       {certState{refused: errNotIssued}, -1},
		"asked":         {certState{asked: &certAsked{lost: at(10)}}, 10},
		"held":          {certState{held: &held}, 60},
		"asking failed": {certState{held: &certHeld{refresh: at(60), expires: at(90), again: at(63)}}, 63},
		"asked again":   {certState{held: &held, asked: &certAsked{lost: at(80)}}, 70},
		"overdue was said": {certState{held: &certHeld{refresh: at(60), expires: at(90), overdue: true},
			asked: &certAsked{lost: at(99)}}, 90},
		"all was said": {certState{held: &told, asked: &certAsked{lost: at(99)}}, 99},
	} {
		got, due := c.state.next()
		if due != (c.want >= 0) || due && got != at(c.want) {
			t.Errorf("%s: next at %v, %t, want minute %d", title, got, due, c.want)
		}
	}
}

// TestKeyTypes: a key of each type is proven by a request that its public key signs.
func TestKeyTypes(t *testing.T) {
	for name := range keyMakers {
		if strings.HasPrefix(name, "RSA") && testing.Short() {
			continue
		}
		text, proof, err := newKey(name)
		if err != nil {
			t.Fatal(err)
		}
		request, err := x509.ParseCertificateRequest(proof)
		if err != nil || request.CheckSignature() != nil || request.Subject.String() != "" {
			t.Errorf("%s: the proof %v, %v", name, request, err)
		}

		block, rest := pem.Decode(text)
		if block == nil || block.Type != "PRIVATE KEY" || len(rest) > 0 {
			t.Fatalf("%s: the key is %s", name, text)
		}
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		public := fmt.Sprintf("%T", request.PublicKey)
		if err != nil || strings.TrimPrefix(public,
			"*") != strings.TrimPrefix(strings.Replace(fmt.Sprintf("%T", key), "Private", "Public", 1), "*") {
			t.Errorf("%s: %T, and its proof has %s: %v", name, key, public, err)
		}
	}

	if _, _, err := newKey("DSA"); err == nil {
		t.Error("a key of an unknown type was made")
	}
}
