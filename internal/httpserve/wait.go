package httpserve

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"time"
)

// Parameters of a request that waits for news. unlike is the Sum of the answer that the client has; wait is a duration,
// such as "10s". The server answers as soon as its answer has another Sum, or when the duration is over. A program
// that does not know the parameters answers at once.
const (
	unlikeParameter, waitParameter = "unlike", "wait"
	// LongestWait bounds what a client may ask for. The kubelet, which passes such questions on, gives a program 20 s.
	LongestWait = 15 * time.Second
	// looks is how often an answer is made anew while a client waits. Most programs hear of a change in some
	// milliseconds, and a page shows it within a second.
	looks = 300 * time.Millisecond
)

// Sum is a short name of an answer's bytes.
func Sum(answer []byte) string {
	sum := sha256.Sum256(answer)
	return hex.EncodeToString(sum[:8])
}

// WaitQuery are the parameters of a question whose answer may wait until it is unlike the last one.
func WaitQuery(last []byte, wait time.Duration) url.Values {
	return url.Values{unlikeParameter: {Sum(last)}, waitParameter: {wait.String()}}
}

// AnswerNews writes what answer returns, as JSON. If the client asked for news, it waits until that differs from what
// the client has.
func AnswerNews(w http.ResponseWriter, r *http.Request, answer func() []byte) {
	query := r.URL.Query()
	wait, err := time.ParseDuration(query.Get(waitParameter))
	if query.Has(waitParameter) && (err != nil || wait < 0) {
		http.Error(w, "wait is a duration, such as 10s", http.StatusBadRequest)
		return
	}

	body := answer()
	if unlike := query.Get(unlikeParameter); unlike != "" {
		over := time.After(min(wait, LongestWait))
		tick := time.NewTicker(looks)
		defer tick.Stop()
		for waiting := true; waiting && Sum(body) == unlike; {
			select {
			case <-r.Context().Done():
				return
			case <-over:
				waiting = false
			case <-tick.C:
				body = answer()
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(body) // an error means that the client is gone
}
