package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"porthole.dev/porthole/web/model"
)

const (
	// pace is the shortest time between two patches to one browser.
	pace = 100 * time.Millisecond
	// beat is how often a browser hears of the server although nothing changed. The page says that it is stale after three of them.
	beat = 2 * time.Second
)

// live streams the document and then what changes in it, as server-sent events: "all" has the whole document, "patch" what is different, "beat" the
// time of the server. A browser that reads slowly gets fewer and larger patches; nothing is queued for it.
func live(w http.ResponseWriter, r *http.Request, from source) {
	defer from.Open()()
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	send := func(event string, value any) error {
		b, err := json.Marshal(value)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, b); err != nil {
			return err
		}
		return out.Flush()
	}

	if send("beat", time.Now().UTC()) != nil {
		return
	}
	var sent model.Document
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		document, changed := from.Document()
		if document != nil {
			if err := sendNews(send, sent, document); err != nil {
				return
			}
			sent = document
		}

		select {
		case <-r.Context().Done():
			return
		case <-changed:
			select {
			case <-r.Context().Done():
				return
			case <-time.After(pace):
			}
		case now := <-ticker.C:
			if send("beat", now.UTC()) != nil {
				return
			}
		}
	}
}

func sendNews(send func(string, any) error, sent, now model.Document) error {
	if sent == nil {
		return send("all", now)
	}
	if p := model.Diff(sent, now); !p.Empty() {
		return send("patch", p)
	}
	return nil
}
