// Package fault makes calls of an emulated service of Windows go wrong by rules, which tests set. It chooses the rule
// for a call and counts; the service carries the action out.
package fault

import (
	"fmt"
	"math/rand/v2"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Rule is a rule that makes calls go wrong. The first that matches a call, and whose turn it is, is used.
type Rule struct {
	// Function selects calls by name, as the service's /stats lists them. A * stands for any characters: HcnCreate*,
	// "HNSCall GET /networks*". Empty: all calls.
	Function string `json:"function"`
	Program  string `json:"program,omitempty"` // file name of the caller, any case; empty: any
	// Match is a regular expression looked for in the call's documents and GUID, and in the document of the object
	// that the call opens, reads, changes or deletes. Empty: any call.
	Match string `json:"match,omitempty"`

	// Nth: only the n-th call that matches so far is meant. 0: each.
	Nth int `json:"nth,omitempty"`
	// Probability of a call to be meant, above 0 and below 1; 0: always. Seed makes the choice repeatable.
	Probability float64 `json:"probability,omitempty"`
	Seed        uint64  `json:"seed,omitempty"`
	ForMs       int     `json:"forMs,omitempty"` // how long from its setting on; 0: until it is removed
	Times       int     `json:"times,omitempty"` // how often it is used; 0: until it is removed

	// Action is one of Actions. Empty: only the delay.
	Action string   `json:"action,omitempty"`
	Code   uint32   `json:"code,omitempty"`   // HRESULT
	Text   string   `json:"text,omitempty"`   // of the error record; empty: no record
	Fields []string `json:"fields,omitempty"` // of the answer, for strip; types of policies, for forget and late
	Delay  int      `json:"delayMs,omitempty"`
	LateMs int      `json:"lateMs,omitempty"` // for late: how long after its answer a call takes its whole effect

	Seen int `json:"seen"` // calls that matched function, program and match
	Hits int `json:"hits"` // of those, the ones it was used on
	// Held are the calls that wait for the rules to be replaced: hung ones have done nothing, mute ones have been
	// carried out.
	Held int `json:"held"`

	pattern  *regexp.Regexp
	random   *rand.Rand
	until    time.Time     // zero: no end
	replaced chan struct{} // closed when the rule is in force no more
	set      *Rule         // the rule in force, of a copy that Match gave
}

// Actions of faults with what they do.
var Actions = map[string]string{
	"fail":    "answer code, do nothing",
	"skip":    "answer success, do nothing",
	"after":   "do it, then answer code",
	"drop":    "close the connection, do nothing",
	"hang":    "do nothing until the rules are replaced, HNS stops or the caller ends",
	"mute":    "do it, but answer only when the rules are replaced",
	"empty":   "a listing answers [] and success",
	"strip":   "leave the named fields out of the properties that are given",
	"forget":  "do it without the policies of the named types, and answer success",
	"late":    "as forget, for an endpoint; it gets them lateMs after the answer",
	"degrade": "do it, and call the endpoint degraded (state 5) in properties that are given",
}

// prepare checks a rule and readies it.
// It sets the counters to zero, also those that the caller sent with the rule.
func (f *Rule) prepare(now time.Time) (err error) {
	if f.Function == "" {
		f.Function = "*"
	}
	if _, known := Actions[f.Action]; f.Action != "" && !known {
		return fmt.Errorf("unknown action %q", f.Action)
	}
	if _, err := path.Match(f.Function, ""); err != nil {
		return fmt.Errorf("function %q: %w", f.Function, err)
	}
	if f.Probability < 0 || f.Probability > 1 {
		return fmt.Errorf("probability %v is not between 0 and 1", f.Probability)
	}
	if f.Nth < 0 || f.ForMs < 0 || f.Times < 0 || f.Delay < 0 || f.LateMs < 0 {
		return fmt.Errorf("nth, forMs, times, delayMs and lateMs cannot be negative")
	}
	if (f.Action == "fail" || f.Action == "after") && f.Code&0x80000000 == 0 {
		return fmt.Errorf("action %s needs a code that is a failure (0x80000000 and above)", f.Action)
	}
	if (f.Action == "strip" || f.Action == "forget" || f.Action == "late") && len(f.Fields) == 0 {
		return fmt.Errorf("action %s needs fields", f.Action)
	}
	// An empty Match is an expression that matches everything, and is not looked for at all.
	if f.pattern, err = regexp.Compile(f.Match); err != nil {
		return fmt.Errorf("match: %w", err)
	}

	// The generator is the rule's own: the same seed meets the same calls each time.
	f.random = rand.New(rand.NewPCG(f.Seed, 0))
	f.until = time.Time{}
	if f.ForMs > 0 {
		f.until = now.Add(time.Duration(f.ForMs) * time.Millisecond)
	}
	f.Seen, f.Hits, f.Held = 0, 0, 0
	return nil
}

// fits reports whether the rule is for such calls. subject gives what Match is looked for in.
func (f *Rule) fits(program, function string, now time.Time, subject func() string) bool {
	if !f.until.IsZero() && now.After(f.until) {
		return false
	}
	if f.Program != "" && !strings.EqualFold(f.Program, program) {
		return false
	}
	// A slash is a letter like any other here.
	ok, err := path.Match(strings.ReplaceAll(f.Function, "/", "\x00"), strings.ReplaceAll(function, "/", "\x00"))
	return err == nil && ok && (f.Match == "" || f.pattern.MatchString(subject()))
}

// turn counts a call that fits and reports whether the rule is used on it.
func (f *Rule) turn() bool {
	// A call that fits counts as seen even if another one is meant.
	f.Seen++
	if f.Nth > 0 && f.Seen != f.Nth || f.Times > 0 && f.Hits >= f.Times {
		return false
	}
	if f.Probability > 0 && f.random.Float64() >= f.Probability {
		return false
	}
	f.Hits++
	return true
}

// Rules are those in force. The zero value has none.
type Rules struct {
	mu    sync.Mutex
	rules []*Rule
}

// Match uses up one turn of the first rule that fits.
// A rule that fits but has no turn is passed over, and the next one is tried. The result is a copy;
// its zero value, for no rule, has no action and no delay.
func (f *Rules) Match(program, function string, subject func() string) Rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.rules) == 0 {
		return Rule{}
	}
	// The subject is made at most once, and only if a rule has a Match: it renders an object's
	// document.
	now, subject := time.Now(), sync.OnceValue(subject)
	for _, r := range f.rules {
		if r.fits(program, function, now, subject) && r.turn() {
			used := *r
			used.set = r
			return used
		}
	}
	return Rule{}
}

// Set replaces all rules, or none if one of them is wrong.
func (f *Rules) Set(rules []*Rule) error {
	now := time.Now()
	for i, r := range rules {
		if r == nil {
			return fmt.Errorf("rule %d is empty", i+1)
		}
		if err := r.prepare(now); err != nil {
			return fmt.Errorf("rule %d: %w", i+1, err)
		}
	}
	// Calls that are held by the rules until now go on as these are replaced.
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		close(r.replaced)
	}
	for _, r := range rules {
		r.replaced = make(chan struct{})
	}
	f.rules = rules
	return nil
}

// Hold counts a call as held by the rule that Match gave for it, until the caller has called release. replaced is
// closed when that rule is in force no more, which it may be already.
func (f *Rules) Hold(used Rule) (replaced <-chan struct{}, release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	used.set.Held++
	return used.replaced, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		used.set.Held--
	}
}

// List returns the rules with what they were used on so far.
func (f *Rules) List() []Rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []Rule{}
	for _, r := range f.rules {
		out = append(out, *r)
	}
	return out
}
