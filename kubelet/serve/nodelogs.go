package serve

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"time"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"porthole.dev/porthole/internal/beneath"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/logs"
)

// Bounds of a query for the logs of a node, as upstream has them (pkg/kubelet/kubelet_server_journal.go).
const (
	maxLogLines   = 100000
	maxLogService = 256 // bytes of a service's name
	maxLogOf      = 4   // services of one query
	journalTime   = 30 * time.Second
)

// unsafeService matches what may not be in the name of a service: it could be taken for an option or a path.
var unsafeService = regexp.MustCompile(`[^a-zA-Z\-_0-9@]+`)

// nodeLogQuery asks for the logs of services, or for one file. The options select from the logs of services.
type nodeLogQuery struct {
	services, files []string
	logOptions
}

// logOptions select parts of a log; the zero value selects all of it.
type logOptions struct {
	since, until *time.Time
	tail, boot   *int
	pattern      string
}

// parseNodeLogQuery parses a query. It returns nil if there is none, so that the path names a file.
func parseNodeLogQuery(q url.Values) (*nodeLogQuery, field.ErrorList) {
	var out nodeLogQuery
	var errs field.ErrorList
	names, asked := q["query"]
	for _, name := range names {
		if strings.ContainsAny(name, `/\`) { // a file; services have no such names
			out.files = append(out.files, name)
		} else if strings.TrimSpace(name) != "" {
			out.services = append(out.services, name)
		}
	}

	if asked && len(out.files)+len(out.services) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("query"), names, "query cannot be empty"))
	}

	// Both read an option that may be missing, and collect errors for one answer.
	moment := func(name string) *time.Time {
		text := q.Get(name)
		if text == "" {
			return nil
		}
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath(name), text, "invalid time format"))
		}
		return &at
	}
	number := func(name string) *int {
		text := q.Get(name)
		if text == "" {
			return nil
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath(name), text, err.Error()))
		}
		return &n
	}

	out.since = moment("sinceTime")
	out.until = moment("untilTime")
	out.boot = number("boot")
	out.tail = number("tailLines")
	out.pattern = q.Get("pattern")
	// Without a query and without options the path names a file.
	if len(errs) > 0 || len(out.files)+len(out.services) == 0 && out.logOptions == (logOptions{}) {
		return nil, errs
	}
	return &out, nil
}

// check returns what is wrong with a query, in upstream's words. exists returns an error for a file that does not
// exist.
// All problems are collected, as upstream's answer has them.
func (n *nodeLogQuery) check(windows bool, exists func(string) error) field.ErrorList {
	var errs field.ErrorList
	query := field.NewPath("query")
	for _, s := range n.services {
		if len(s) > maxLogService {
			errs = append(errs, field.Invalid(query, s, fmt.Sprintf("length must be at most %d", maxLogService)))
		}
		if unsafeService.MatchString(s) {
			errs = append(errs, field.Invalid(query, s, "input contains unsupported characters"))
		}
	}
	if len(n.services) > maxLogOf {
		errs = append(errs, field.TooMany(query, len(n.services), maxLogOf))
	}

	switch {
	case len(n.files)+len(n.services) == 0:
		errs = append(errs, field.Required(query, "cannot be empty with options"))
	case len(n.files) > 0 && len(n.services) > 0:
		errs = append(errs, field.Invalid(query, fmt.Sprintf("%v, %v", n.files, n.services),
			"cannot specify a file and service"))
	case len(n.files) > 1:
		errs = append(errs, field.Invalid(query, n.files, "cannot specify more than one file"))
	case len(n.files) == 1 && n.logOptions != (logOptions{}):
		errs = append(errs, field.Invalid(query, n.files, "cannot specify file with options"))
	case len(n.files) == 1:
		if err := exists(n.files[0]); err != nil {
			errs = append(errs, field.Invalid(query, n.files, err.Error()))
		}
	}

	if n.since != nil && n.until != nil && n.since.After(*n.until) {
		errs = append(errs, field.Invalid(field.NewPath("untilTime"), *n.until, "must be after `sinceTime`"))
	}
	if n.boot != nil && windows {
		errs = append(errs, field.Invalid(field.NewPath("boot"), *n.boot, "boot is not supported on Windows"))
	}
	if n.boot != nil && *n.boot > 0 {
		errs = append(errs, field.Invalid(field.NewPath("boot"), *n.boot, "must be less than 1"))
	}
	if n.tail != nil {
		for _, text := range utilvalidation.IsInRange(*n.tail, 0, maxLogLines) {
			errs = append(errs, field.Invalid(field.NewPath("tailLines"), *n.tail, text))
		}
	}
	if _, err := syntax.Parse(n.pattern, syntax.Perl); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("pattern"), n.pattern, err.Error()))
	}
	return errs
}

// journalArgs returns the options of journalctl for services. The query was checked.
// With a time zone in the text the journal does not take times for local ones.
func (n *nodeLogQuery) journalArgs(services []string) []string {
	const layout = "2006-01-02 15:04:05 UTC"
	args := []string{"--utc", "--no-pager", "--output=short-precise"}
	if n.since != nil {
		args = append(args, "--since="+n.since.UTC().Format(layout))
	}
	if n.until != nil {
		args = append(args, "--until="+n.until.UTC().Format(layout))
	}
	if n.tail != nil {
		args = append(args, "--pager-end", fmt.Sprintf("--lines=%d", *n.tail))
	}
	for _, s := range services {
		args = append(args, "--unit="+s)
	}
	if n.pattern != "" {
		args = append(args, "--grep="+n.pattern, "--case-sensitive=false")
	}
	if n.boot != nil {
		args = append(args, "--boot", strconv.Itoa(*n.boot))
	}
	return args
}

// nodeLogs serves the files of the log folder, and answers queries if they are switched on. Links that lead out of the
// folder are refused.
func (s *Server) nodeLogs(w http.ResponseWriter, r *http.Request) {
	root, err := os.OpenRoot(s.opts.Logs.Dir)
	if err != nil {
		http.Error(w, "the log folder cannot be read", http.StatusNotFound)
		return
	}
	defer root.Close()
	files := http.FileServerFS(logFolder{root})
	http.StripPrefix("/logs/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.opts.Logs.Queries && s.answerLogQuery(w, r, root) {
			return
		}
		files.ServeHTTP(w, r)
	})).ServeHTTP(w, r)
}

// answerLogQuery answers a query. It returns false, with nothing answered, if a file is wanted: r.URL.Path names it
// then.
func (s *Server) answerLogQuery(w http.ResponseWriter, r *http.Request, root *os.Root) bool {
	// Wrong queries are 400, queries that are not allowed 406, as upstream answers them.
	q, errs := parseNodeLogQuery(r.URL.Query())
	switch {
	case len(errs) > 0:
		http.Error(w, errs.ToAggregate().Error(), http.StatusBadRequest)
		return true
	case q == nil:
		return false
	case r.URL.Path != "" && r.URL.Path != "/":
		http.Error(w, "path not allowed in query mode", http.StatusNotAcceptable)
		return true
	}

	// Files are named with separators of either system, from the log folder on.
	name := func(file string) string { return strings.TrimLeft(strings.ReplaceAll(file, `\`, "/"), "/") }
	exists := func(file string) error {
		_, err := root.Stat(name(file))
		return err
	}
	if errs := q.check(platform.IsWindows, exists); len(errs) > 0 {
		http.Error(w, errs.ToAggregate().Error(), http.StatusNotAcceptable)
		return true
	}
	// One file is served like a path, with ranges and folders.
	if len(q.files) == 1 {
		r.URL.Path = "/" + name(q.files[0])
		return false
	}

	w.Header().Set("Content-Type", "text/plain;charset=UTF-8")
	out := io.Writer(w)
	if r.Header.Get("Accept-Encoding") == "gzip" {
		w.Header().Set("Content-Encoding", "gzip")
		zip := gzip.NewWriter(w)
		defer func() { _ = zip.Close() }() // the client may be gone
		out = zip
	}
	ctx, cancel := context.WithTimeout(r.Context(), journalTime)
	defer cancel()
	q.copyServices(ctx, out, root)
	return true
}

// errNoFile is the error about what is neither a regular file nor a folder.
var errNoFile = fmt.Errorf("it is neither a file nor a folder: %w", fs.ErrPermission)

// openLog opens a file or folder below root. A container that writes there can replace a file by a named pipe or a
// device at any time. So openLog checks what it is before and after it opens it, and does not wait for the other end of
// a pipe.
func openLog(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, nil, err
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return nil, nil, errNoFile
	}

	f, err := root.OpenFile(name, os.O_RDONLY|beneath.NoWait, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err = f.Stat()
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		err = errNoFile
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// logFolder has the files that openLog opens.
type logFolder struct{ root *os.Root }

// Open is that of fs.FS.
func (l logFolder) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	f, _, err := openLog(l.root, filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	return f, nil
}

// copyServices writes the logs of services: from the journal, or else from their files. Failures are written among the
// lines, as upstream does: the answer has begun by then.
func (n *nodeLogQuery) copyServices(ctx context.Context, out io.Writer, root *os.Root) {
	known, others := journaled(ctx, n.services)
	if len(known) > 0 {
		if err := journal(ctx, n.journalArgs(known), out); err != nil {
			fmt.Fprintf(out, "\nerror: journal output not available\n")
		}
	}
	if len(others) > 0 && n.logOptions != (logOptions{}) {
		fmt.Fprintf(out, "\noptions present and query resolved to log files for %v\ntry without specifying options\n",
			others)
		return
	}
	for _, service := range others {
		switch err := copyServiceFile(ctx, out, root, service); {
		case errors.Is(err, fs.ErrNotExist):
			fmt.Fprintf(out, "\nlog not found for %s\n", service)
		case err != nil:
			fmt.Fprintf(out, "\nerror getting log for %s: %v\n", service, err)
		}
	}
}

// copyServiceFile writes the log file of a service. It tries the names that such files usually have.
func copyServiceFile(ctx context.Context, out io.Writer, root *os.Root, service string) error {
	for _, name := range []string{service, service + ".log", service + "/" + service + ".log"} {
		err := copyLogFile(ctx, out, root, name)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return fs.ErrNotExist
}

// copyLogFile writes one file below root to out until ctx ends. root keeps links from leading out of the folder. A
// folder counts as absent, because copyServiceFile then looks for the log inside it; devices and pipes are refused, as
// reading them may never end.
func copyLogFile(ctx context.Context, out io.Writer, root *os.Root, name string) error {
	f, info, err := openLog(root, name)
	if errors.Is(err, errNoFile) {
		return fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if info.IsDir() {
		return fs.ErrNotExist
	}
	_, err = io.Copy(out, logs.Until(ctx, f))
	return err
}
