package serve

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"porthole.dev/porthole/web/model"
)

const (
	// pace is the shortest time between two patches to one browser.
	pace = 100 * time.Millisecond
	// beat is how often a browser hears of the server although nothing changed. The page says that it is stale after
	// three of them.
	beat = 2 * time.Second
)

// live streams the document and then what changes in it, as server-sent events: "all" has the whole document, "patch"
// what is different, "beat" the time of the server. A browser that reads slowly gets fewer and larger patches; nothing
// is queued for it.
func live(w http.ResponseWriter, r *http.Request, from source) {
	defer from.Open()()
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	lines := bufio.NewWriterSize(w, 32<<10)
	send := func(event string, write func(io.Writer) error) error {
		fmt.Fprintf(lines, "event: %s\ndata: ", event)
		if err := write(lines); err != nil {
			return err
		}
		lines.WriteString("\n\n")
		if err := lines.Flush(); err != nil { // the first error of a bufio.Writer stays
			return err
		}
		return out.Flush()
	}

	if send("beat", text(time.Now().UTC())) != nil {
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
			if send("beat", text(now.UTC())) != nil {
				return
			}
		}
	}
}

// text writes a value as JSON.
func text(value any) func(io.Writer) error {
	return func(w io.Writer) error {
		b, err := json.Marshal(value)
		if err == nil {
			_, err = w.Write(b)
		}
		return err
	}
}

func sendNews(send func(string, func(io.Writer) error) error, sent, now model.Document) error {
	if sent == nil {
		return send("all", now.Write)
	}
	if p := model.Diff(sent, now); !p.Empty() {
		return send("patch", text(p))
	}
	return nil
}
