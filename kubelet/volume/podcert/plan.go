package podcert

import (
	"fmt"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
)

// Times of upstream's pkg/kubelet/podcertificate.
const (
	certLost = 10 * time.Minute // a request that the watch has not shown for so long (and a jitter) is lost
	Overdue  = 10 * time.Minute // after its time, a certificate that was not replaced is worth an event
	// after a request to replace a certificate failed (ours; upstream's queue waits longer and longer)
	Again  = time.Minute
	Jitter = 5 * time.Minute // at most so much later, so that pods that started together do not ask together
)

// certState is what is known of one certificate of one pod:
//
//	nothing ──ask──► asked ──issued──► held ──refresh time: ask──► held and asked ──issued──► held
//	                   │                                             │
//	                   └────────denied or failed────► refused ◄──────┘
//
// Refused is final. A request that is gone is asked for anew. A restart of the kubelet forgets all of it, as
// upstream's does.
type certState struct {
	held    *certHeld  // what the files show; nil before the first one was issued
	asked   *certAsked // the request that waits for its signer
	refused error
}

type certHeld struct {
	key, chain       []byte // PEM
	refresh, expires time.Time
	again            time.Time // the last attempt to ask for another one failed; the next is not before this
	overdue, expired bool      // the event was sent
}

// renewal returns when to ask for another one.
func (h certHeld) renewal() time.Time {
	if h.again.After(h.refresh) {
		return h.again
	}
	return h.refresh
}

type certAsked struct {
	name string
	key  []byte    // PEM
	lost time.Time // when the request counts as lost if the watch never shows it
	seen bool      // the watch has shown it
}

// certStep is what to do about a certificate now.
type certStep int

const (
	certWait certStep = iota // nothing
	certAsk                  // make a key and request a certificate
	certTake                 // the request was answered: show its certificate
	certRefuse
	certForget // the request is gone: then plan again
)

func (s certStep) String() string {
	return [...]string{"wait", "ask", "take", "refuse", "forget the request"}[s]
}

// certPlan is what to do about one certificate.
type certPlan struct {
	step certStep
	// answer is the condition that decides, for certRefuse.
	answer           string
	reason, message  string
	overdue, expired bool // send these events
}

func (p certPlan) String() string {
	out := p.step.String()
	if p.step == certRefuse {
		out += fmt.Sprintf(" (%s, %s: %s)", p.answer, p.reason, p.message)
	}
	if p.overdue {
		out += ", say that it is overdue"
	}
	if p.expired {
		out += ", say that it is expired"
	}
	return out
}

// planCertificate decides what to do. request is the one that was asked for, as the watch has it; known is false if
// there is no telling.
func planCertificate(s certState, request *certificatesv1beta1.PodCertificateRequest, known bool,
	now time.Time) certPlan {
	var p certPlan
	switch {
	case s.refused != nil:
		return p
	case s.asked != nil && request != nil:
		p = answerOf(request)
	case s.asked != nil:
		if known && s.asked.seen || now.After(s.asked.lost) {
			p.step = certForget
		}
	case s.held == nil || !now.Before(s.held.renewal()):
		p.step = certAsk
	}

	if h := s.held; h != nil && p.step != certTake && p.step != certRefuse {
		p.overdue = !h.overdue && now.After(h.refresh.Add(Overdue))
		p.expired = !h.expired && now.After(h.expires)
	}
	return p
}

// answerOf returns what the signer has decided; the zero plan if it has not yet.
func answerOf(r *certificatesv1beta1.PodCertificateRequest) certPlan {
	for _, c := range r.Status.Conditions {
		switch c.Type {
		case certificatesv1beta1.PodCertificateRequestConditionTypeDenied,
			certificatesv1beta1.PodCertificateRequestConditionTypeFailed:
			return certPlan{step: certRefuse, answer: c.Type, reason: c.Reason, message: c.Message}
		case certificatesv1beta1.PodCertificateRequestConditionTypeIssued:
			return certPlan{step: certTake}
		}
	}
	return certPlan{}
}

// certEvent is an event about the pod.
type certEvent struct{ reason, message string }

// events returns what to say of a plan. The words are upstream's. (Upstream's event of a denied or failed request has
// the signer's reason as its format, so that the text is garbled; this is the text that it means.)
func (p certPlan) events(namespace, request string) (list []certEvent) {
	if p.step == certRefuse {
		verb := "was denied"
		if p.answer == certificatesv1beta1.PodCertificateRequestConditionTypeFailed {
			verb = "failed"
		}
		list = append(list, certEvent{p.answer,
			fmt.Sprintf("PodCertificateRequest %s/%s %s, reason=%q, message=%q", namespace, request, verb, p.reason,
				p.message)})
	}
	if p.overdue {
		list = append(list, certEvent{"CertificateOverdueForRefresh", "PodCertificate refresh overdue"})
	}
	if p.expired {
		list = append(list, certEvent{"CertificateExpired", "PodCertificate expired"})
	}
	return list
}

// refusal is the error of a volume whose certificate was refused.
func (p certPlan) refusal() error {
	verb := "denied"
	if p.answer == certificatesv1beta1.PodCertificateRequestConditionTypeFailed {
		verb = "failed"
	}
	// upstream's words
	return fmt.Errorf("PodCertificateRequest was permanently %s: reason=%q message=%q", verb, p.reason, p.message)
}

// next returns when something is due that no change of the request announces, false if nothing is.
func (s certState) next() (time.Time, bool) {
	var due []time.Time
	if s.refused != nil {
		return time.Time{}, false
	}
	if s.asked != nil {
		due = append(due, s.asked.lost)
	}
	if h := s.held; h != nil {
		if s.asked == nil {
			due = append(due, h.renewal())
		}
		if !h.overdue {
			due = append(due, h.refresh.Add(Overdue))
		}
		if !h.expired {
			due = append(due, h.expires)
		}
	}
	return earliest(due...)
}

// earliest returns the first of some times, false if there is none.
func earliest(times ...time.Time) (first time.Time, any bool) {
	for _, t := range times {
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	return first, len(times) > 0
}
