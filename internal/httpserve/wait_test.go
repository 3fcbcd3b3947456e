package httpserve

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/bubble"
)

// ask returns the answer to a question and how long it took.
func ask(answer func() []byte, query string) (code int, body string, took time.Duration) {
	began := time.Now()
	w := httptest.NewRecorder()
	AnswerNews(w, httptest.NewRequest(http.MethodGet, "/status?"+query, nil), answer)
	data, _ := io.ReadAll(w.Result().Body)
	return w.Code, string(data), time.Since(began)
}

// TestAnswerNews: without parameters, or when the client has something else, the answer comes at once; else when there
// is news, or when the time is over.
func TestAnswerNews(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const old, news = `{"a":1}`, `{"a":2}`
		var current atomic.Value
		current.Store(old)
		answer := func() []byte { return []byte(current.Load().(string)) }
		same := WaitQuery([]byte(old), 10*time.Second).Encode()

		for query, want := range map[string]time.Duration{"": 0, WaitQuery([]byte(news), time.Minute).Encode(): 0,
			"unlike=" + Sum([]byte(old)): 0,
			same:                         10 * time.Second, WaitQuery([]byte(old), time.Hour).Encode(): LongestWait} {
			if code, body, took := ask(answer, query); code != http.StatusOK || body != old || took != want {
				t.Errorf("%q: %d %s after %v, not %v", query, code, body, took, want)
			}
		}
		if code, _, _ := ask(answer, "wait=long"); code != http.StatusBadRequest {
			t.Errorf("wait=long: %d", code)
		}

		time.AfterFunc(4*time.Second, func() { current.Store(news) })
		if _, body, took := ask(answer, same); body != news || took < 4*time.Second || took > 4*time.Second+looks {
			t.Errorf("%s after %v", body, took)
		}
	})
}
