package serve

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// read returns everything that readLog writes for a query.
func read(t *testing.T, path string, q logQuery) string {
	t.Helper()
	var out bytes.Buffer
	if err := readLog(context.Background(), path, q, nil, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// FuzzReadLog reads logs of any content. The last lines must be a part of the whole, a limit must cut at the byte, and
// a stream must have its own lines only.
func FuzzReadLog(f *testing.F) {
	f.Add([]byte(sample), int64(2), int64(7))
	f.Add([]byte(strings.TrimSuffix(sample, "\n")), int64(0), int64(1))
	f.Add([]byte("2026-01-02T03:04:05Z stdout P "+strings.Repeat("x", tailBlock)+"\n\n2026-01-02T03:04:05Z stderr F y"),
		int64(1), int64(1<<40))
	f.Add([]byte("2026-01-02T03:04:05Z stdout F:x \r\n2026-01-02T03:04:05+23:59 stdout  \n"), int64(9), int64(2))
	dir := f.TempDir()

	f.Fuzz(func(t *testing.T, log []byte, tail, limit int64) {
		if tail < 0 || limit < 1 {
			return // parseLogQuery refuses these
		}
		path := filepath.Join(dir, "log")
		if err := os.WriteFile(path, log, 0o600); err != nil {
			t.Fatal(err)
		}

		whole := read(t, path, logQuery{})
		if end := read(t, path, logQuery{tail: &tail}); !strings.Contains(whole, end) ||
			int64(strings.Count(end, "\n")) > tail {
			t.Fatalf("the last %d lines of %q are %q", tail, whole, end)
		}
		if all := int64(bytes.Count(log, []byte("\n"))) + 1; read(t, path, logQuery{tail: &all}) != whole {
			t.Fatalf("the last %d lines of %q are %q", all, whole, read(t, path, logQuery{tail: &all}))
		}
		if start, want := read(t, path, logQuery{limit: &limit}), whole[:min(int64(len(whole)), limit)]; start != want {
			t.Fatalf("%d bytes of %q are %q", limit, whole, start)
		}

		out, errs := read(t, path, logQuery{stream: "Stdout"}), read(t, path, logQuery{stream: "Stderr"})
		if len(out)+len(errs) != len(whole) {
			t.Fatalf("%q is %q and %q", whole, out, errs)
		}
		if stamped := read(t, path, logQuery{timestamps: true}); len(stamped) < len(whole) {
			t.Fatalf("%q with times is %q", whole, stamped)
		}

		future := logQuery{since: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}
		if late := read(t, path, future); late != "" {
			t.Fatalf("%q is later than everything", late)
		}
	})
}

// FuzzLogQueries parses any query. There must be an error or a query within its bounds, and nothing in a query may
// become another option of journalctl.
func FuzzLogQueries(f *testing.F) {
	for _, s := range []string{"tailLines=1&limitBytes=1&sinceSeconds=9223372036854775807",
		"tail=all&tailLines=x&follow", "sinceTime=2026-01-02T03:04:05Z&stream=Stdout",
		"query=-x&query=a@b&boot=-1", "query=/../x", "query=a&pattern=(&tailLines=-1",
		"query=a&sinceTime=0000-01-01T00:00:00%2B23:59&untilTime=2026-01-02T03:04:05Z", "%", "query=%00"} {
		f.Add(s)
	}

	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		values, err := url.ParseQuery(text)
		if err != nil {
			return
		}

		q, errs := parseNodeLogQuery(values)
		if q != nil && len(errs) > 0 {
			t.Fatalf("a query and %v", errs)
		}
		if q != nil && len(q.check(false, func(string) error { return nil })) == 0 {
			checkJournal(t, q)
		}

		l, err := parseLogQuery(values, now)
		switch {
		case err != nil && !errors.Is(err, errDecode) && !errors.Is(err, errInvalid):
			t.Fatal(err)
		case err == nil && (l.tail != nil && *l.tail < 0 || l.limit != nil && *l.limit < 1 ||
			values.Get("sinceSeconds") != "" && !l.since.Before(now)):
			t.Fatalf("%q gives %+v", text, l)
		}
	})
}

func checkJournal(t *testing.T, q *nodeLogQuery) {
	for _, s := range q.services {
		if s == "" || strings.ContainsAny(s, "/\\*?[]. \x00=") || len(s) > maxLogService {
			t.Fatalf("a service is called %q", s)
		}
	}
	if q.tail != nil && (*q.tail < 0 || *q.tail > maxLogLines) || len(q.files) > 1 || len(q.services) > maxLogOf {
		t.Fatalf("%+v", q)
	}
	args := q.journalArgs(q.services)
	for i, arg := range args {
		value := i > 0 && args[i-1] == "--boot"
		if !value && !strings.HasPrefix(arg, "--") {
			t.Fatalf("%q of %q is not an option", arg, args)
		}
	}
}

// FuzzHeaders reads any headers. No handler may see the token, and a page must have a format that exists.
func FuzzHeaders(f *testing.F) {
	text := base64.RawURLEncoding.EncodeToString([]byte("secret-token"))
	f.Add("Bearer secret-token", "v5.channel.k8s.io",
		"text/plain;q=0.5, application/json;g=config.k8s.io;v=v1beta1;as=Statusz")
	f.Add("bEARER  secret-token ", "", "*/*;q=NaN,text/*;q=-1")
	f.Add("Basic eA==", "a, base64url.bearer.authorization.k8s.io."+text+" ,b",
		"application/yaml;as=Statusz;g=config.k8s.io;v=v1alpha1;q=1e999")
	f.Add("", "base64url.bearer.authorization.k8s.io.===,base64url.bearer.authorization.k8s.io.eA", ";;;,")

	f.Fuzz(func(t *testing.T, auth, protocols, accept string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", auth)
		r.Header.Set("Sec-Websocket-Protocol", protocols)

		token := bearer(r)
		if len(token) >= 8 && (strings.Contains(r.Header.Get("Authorization"), token) ||
			strings.Contains(r.Header.Get("Sec-Websocket-Protocol"),
				base64.RawURLEncoding.EncodeToString([]byte(token)))) {
			t.Fatalf("the token %q is still there: %v", token, r.Header)
		}
		if kind, _, ok := strings.Cut(auth, " "); ok && strings.EqualFold(kind, "bearer") &&
			r.Header.Get("Authorization") != "" {
			t.Fatalf("%q is still there", auth)
		}

		form, ok := zForms(accept, "Statusz")
		plain := form.media == "text/plain" && form.version == ""
		object := slices.Contains([]string{"application/json", "application/yaml"}, form.media) &&
			slices.Contains([]string{"v1alpha1", "v1beta1"}, form.version)
		if ok && !plain && !object || !ok && form != (zForm{}) {
			t.Fatalf("%q gives %+v %v", accept, form, ok)
		}
	})
}
