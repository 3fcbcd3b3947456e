package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"time"

	"porthole.dev/porthole/web/model"
)

// source is where the data comes from; web/collect's Collector implements it.
type source interface {
	Document() (model.Document, <-chan struct{})
	Open() (closed func())
}

// Options configure a Server. Listener, Page and Source are required.
type Options struct {
	// Listener must be one of loopback.
	Listener net.Listener
	// Page are the files of the page; without an index.html the server says how to build them.
	Page   fs.FS
	Source source
	// Linked is called with a link each time that one can be used; it must not block.
	Linked func(link string)
	// Questions are what the page asks for, by its path below /api/.
	Questions map[string]Question
}

// Question answers one question of the page: a value for JSON, or an error that the page shows. A *Misuse is the
// asker's fault.
type Question func(ctx context.Context, r *http.Request) (any, error)

// Misuse is an error about what was asked for: an unknown name, a bad value.
type Misuse struct{ Text string }

func (m *Misuse) Error() string { return m.Text }

// Run serves until ctx ends.
func Run(ctx context.Context, o Options) error {
	addr, ok := o.Listener.Addr().(*net.TCPAddr)
	if !ok || !addr.IP.IsLoopback() {
		return fmt.Errorf("serving the page: %s is no address of loopback", o.Listener.Addr())
	}
	d := newDoor(addr.Port, o.Linked)
	server := &http.Server{Handler: d.guard(routes(o)), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	o.Linked(d.link())

	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(o.Listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the page: %w", err)
	}
	return nil
}

func routes(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/live", func(w http.ResponseWriter, r *http.Request) { live(w, r, o.Source) })
	for path, ask := range o.Questions {
		mux.HandleFunc("/api/"+path, func(w http.ResponseWriter, r *http.Request) { reply(w, r, ask) })
	}
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, http.StatusNotFound, "there is no such question")
	})

	files := http.FileServerFS(o.Page)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if _, err := fs.Stat(o.Page, "index.html"); err != nil {
			refuse(w, r, http.StatusNotImplemented,
				"This program was built without the page. `make build` builds it, and needs nodejs and npm; `tools/deps` installs them.")
			return
		}
		files.ServeHTTP(w, r)
	})
	return mux
}

// questionLimit bounds what a page asks for: facts of nodes under Wine take some seconds on a busy machine.
const questionLimit = time.Minute

func reply(w http.ResponseWriter, r *http.Request, ask Question) {
	ctx, cancel := context.WithTimeout(r.Context(), questionLimit)
	defer cancel()
	r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
	value, err := ask(ctx, r)
	var misuse *Misuse
	switch {
	case errors.As(err, &misuse):
		answer(w, http.StatusBadRequest, map[string]string{"error": misuse.Text})
	case err != nil:
		answer(w, http.StatusBadGateway, map[string]string{"error": err.Error()})
	default:
		answer(w, http.StatusOK, value)
	}
}
