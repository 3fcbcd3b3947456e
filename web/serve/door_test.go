package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"porthole.dev/porthole/web/model"
)

// documents are a source whose document a test sets.
type documents struct {
	mu      sync.Mutex
	now     model.Document
	changed chan struct{}
	pages   int
}

func (d *documents) set(now model.Document) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = now
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *documents) Document() (model.Document, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now, d.changed
}

func (d *documents) Open() (closed func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pages++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.pages--
	}
}

func (d *documents) open() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pages
}

// house is a server with a door, and the links that it gave.
type house struct {
	*httptest.Server
	source *documents
	door   *door
	links  []string
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{source: &documents{changed: make(chan struct{})}}
	files := fstest.MapFS{"index.html": {Data: []byte("the page")}}
	ask := func(_ context.Context, r *http.Request) (any, error) {
		if r.URL.Query().Get("of") == "" {
			return nil, &Misuse{Text: "of is needed"}
		}
		return map[string]string{"method": r.Method}, nil
	}
	o := Options{Page: files, Source: h.source, Questions: map[string]Question{"ask": ask}}
	h.Server = httptest.NewUnstartedServer(nil)
	h.door = newDoor(h.Listener.Addr().(*net.TCPAddr).Port, func(link string) { h.links = append(h.links, link) })
	h.Config.Handler = h.door.guard(routes(o))
	h.Start()
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return h
}

// request is what a browser sends. Redirects are not followed.
type request struct {
	method, path, host, origin string
	cookie                     *http.Cookie
}

func (h *house) send(t *testing.T, r request) *http.Response {
	t.Helper()
	if r.method == "" {
		r.method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(t.Context(), r.method, h.URL+r.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.host != "" {
		req.Host = r.host
	}
	if r.origin != "" {
		req.Header.Set("Origin", r.origin)
	}
	if r.cookie != nil {
		req.AddCookie(r.cookie)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func (h *house) token() string {
	return strings.TrimPrefix(h.door.link(), "http://127.0.0.1:"+h.port())
}

// at returns an address of the page.
func (h *house) at(path string) string { return strings.TrimSuffix(h.door.path, "/") + path }

func (h *house) port() string { return h.URL[strings.LastIndex(h.URL, ":")+1:] }

// TestDoor: who is let in, who is not, and what every answer carries.
func TestDoor(t *testing.T) {
	h := newHouse(t)
	first := h.token()
	in := h.send(t, request{path: first})
	if in.StatusCode != http.StatusSeeOther || in.Header.Get("Location") != h.door.path || len(in.Cookies()) != 1 {
		t.Fatalf("with the token: %s to %q, cookies %v", in.Status, in.Header.Get("Location"), in.Cookies())
	}
	cookie := in.Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || !strings.HasSuffix(cookie.Name, h.port()) {
		t.Errorf("the cookie: %v", cookie)
	}
	if len(h.links) != 1 || strings.HasSuffix(h.links[0], first) {
		t.Errorf("links after the first was used: %q", h.links)
	}

	forged := &http.Cookie{Name: cookie.Name, Value: "x"}
	for name, c := range map[string]struct {
		request
		code int
	}{
		"the page":               {request{path: h.at("/"), cookie: cookie}, http.StatusOK},
		"the root of the server": {request{path: "/", cookie: cookie}, http.StatusUnauthorized},
		"a stream at the root":   {request{path: "/api/live", cookie: cookie}, http.StatusUnauthorized},
		"another path": {request{path: "/" + strings.Repeat("x", 43) + "/", cookie: cookie},
			http.StatusUnauthorized},
		"an unknown file":               {request{path: h.at("/x"), cookie: cookie}, http.StatusNotFound},
		"without a cookie":              {request{path: h.at("/")}, http.StatusUnauthorized},
		"with a forged one":             {request{path: h.at("/"), cookie: forged}, http.StatusUnauthorized},
		"the stream without a cookie":   {request{path: h.at("/api/live")}, http.StatusUnauthorized},
		"the used token":                {request{path: first}, http.StatusUnauthorized},
		"the used token by who used it": {request{path: first, cookie: cookie}, http.StatusSeeOther},
		"another name of this machine": {request{path: h.at("/"), host: "evil.example:80", cookie: cookie},
			http.StatusMisdirectedRequest},
		"localhost":      {request{path: h.at("/"), host: "localhost:1", cookie: cookie}, http.StatusOK},
		"a question":     {request{path: h.at("/api/ask?of=x"), cookie: cookie}, http.StatusOK},
		"a bad question": {request{path: h.at("/api/ask"), cookie: cookie}, http.StatusBadRequest},
		"no question":    {request{path: h.at("/api/none"), cookie: cookie}, http.StatusNotFound},
		"a change of another site": {request{method: "POST", path: h.at("/api/ask?of=x"),
			origin: "http://evil.example", cookie: cookie}, http.StatusForbidden},
		"a change of no site": {request{method: "POST", path: h.at("/api/ask?of=x"), cookie: cookie},
			http.StatusForbidden},
		"a change of the page": {request{method: "POST", path: h.at("/api/ask?of=x"), origin: h.URL,
			cookie: cookie}, http.StatusOK},
	} {
		resp := h.send(t, c.request)
		if resp.StatusCode != c.code {
			t.Errorf("%s: %s, want %d", name, resp.Status, c.code)
		}
		if p := resp.Header.Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") ||
			strings.Contains(p, "unsafe") {
			t.Errorf("%s: the content policy is %q", name, p)
		}
	}
}

// TestCookieStaysHere: a browser does not send the cookie to another server of this machine, on the same name and
// another port, as it would one without a path.
func TestCookieStaysHere(t *testing.T) {
	h := newHouse(t)
	got := make(chan string, 1)
	other := httptest.NewServer(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("Cookie") }))
	defer other.Close()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}

	browser := &http.Client{Jar: jar}
	for _, address := range []string{h.door.link(), other.URL + "/", other.URL + "/api/live"} {
		resp, err := browser.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if strings.HasPrefix(address, other.URL) {
			if cookie := <-got; cookie != "" {
				t.Errorf("%s got the cookie %s", address, cookie)
			}
		} else if resp.StatusCode != http.StatusOK {
			t.Errorf("the page: %s", resp.Status)
		}
	}
	if h.door.path == newDoor(1, nil).path || len(h.door.path) < 40 {
		t.Errorf("the path %s can be guessed", h.door.path)
	}
}

// TestTwoTabs: every stream gets the whole document and then each change; a tab that is closed is not counted any more.
func TestTwoTabs(t *testing.T) {
	h := newHouse(t)
	cookie := h.send(t, request{path: h.token()}).Cookies()[0]
	h.source.set(model.Document{"cluster": []byte("1"), "pod/a/b": []byte("2")})
	tabs := []*bufio.Reader{}
	var bodies []io.Closer
	for range 2 {
		resp := h.send(t, request{path: h.at("/api/live"), cookie: cookie})
		tabs, bodies = append(tabs, bufio.NewReader(resp.Body)), append(bodies, resp.Body)
		if got := next(t, tabs[len(tabs)-1], "all"); got != `{"cluster":1,"pod/a/b":2}` {
			t.Errorf("the document is %s", got)
		}
	}
	if h.source.open() != 2 {
		t.Errorf("%d pages are open", h.source.open())
	}

	h.source.set(model.Document{"cluster": []byte("3")})
	for i, tab := range tabs {
		if got := next(t, tab, "patch"); got != `{"gone":["pod/a/b"],"set":{"cluster":3}}` {
			t.Errorf("tab %d heard of %s", i, got)
		}
	}
	bodies[0].Close()
	for end := time.Now().Add(20 * time.Second); h.source.open() != 1; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d pages are open after one was closed", h.source.open())
		}
	}
}

// next returns the next event of a kind, as JSON with sorted keys. Beats are passed over.
func next(t *testing.T, from *bufio.Reader, kind string) string {
	t.Helper()
	for {
		name, err := from.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		data, _ := from.ReadString('\n')
		from.ReadString('\n')
		if name == "event: beat\n" {
			continue
		}
		if name != "event: "+kind+"\n" {
			t.Fatalf("%s, want %s", name, kind)
		}
		var value any
		if err := json.Unmarshal([]byte(strings.TrimPrefix(data, "data: ")), &value); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		sorted, _ := json.Marshal(value)
		return string(sorted)
	}
}

// TestLoopbackOnly: the server does not listen for other machines.
func TestLoopbackOnly(t *testing.T) {
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := Run(t.Context(), Options{Listener: listener, Linked: func(string) {}}); err == nil ||
		!strings.Contains(err.Error(), "is no address of loopback") {
		t.Error(err)
	}
}
