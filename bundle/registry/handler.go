package main

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
)

// handler answers the calls of the OCI distribution specification that pulling and pushing need. Everybody who reaches
// it may pull.
type handler struct {
	store store
	// login is NAME:PASSWORD of who may push. Nodes run what a tag names, some of it with all rights, so that nobody
	// else may. Empty: nobody may.
	login string
}

// newHandler reads the file of the login. No file: nobody may push.
func newHandler(s store, loginFile string) (handler, error) {
	if loginFile == "" {
		return handler{store: s}, nil
	}
	login, err := os.ReadFile(loginFile)
	name, password, ok := strings.Cut(strings.TrimSpace(string(login)), ":")
	if err == nil && (!ok || name == "" || password == "") {
		err = fmt.Errorf("%s has no NAME:PASSWORD", loginFile)
	}
	return handler{s, name + ":" + password}, err
}

// maxManifest is the limit in bytes; manifests are kept in memory while they are checked.
const maxManifest = 4 << 20

// The expressions of paths: the name of the repository is the first group, a reference the second.
var (
	manifestsPath = regexp.MustCompile(`^/v2/(.+)/manifests/([^/]+)$`)
	uploadsPath   = regexp.MustCompile(`^/v2/(.+)/blobs/uploads/([0-9A-Za-z]*)$`)
	blobsPath     = regexp.MustCompile(`^/v2/(.+)/blobs/([^/]+)$`)
	tagsPath      = regexp.MustCompile(`^/v2/(.+)/tags/list$`)
)

// ServeHTTP serves the part of the distribution API that containerd and ctr use. Names of repositories may contain
// slashes, so paths are matched by expressions and not by a ServeMux.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	path := r.URL.Path
	switch {
	case !h.may(r):
		h.refuse(w)
		return
	case path == "/v2/" || path == "/v2":
		fmt.Fprintln(w, "{}")
		return
	case path == "/v2/_catalog":
		names, err := h.store.repositories()
		answer(w, map[string]any{"repositories": names}, err)
		return
	}

	// The expressions do not overlap but for blobs, whose reference must not be taken for an
	// upload; so the order of the map does not matter.
	for pattern, serve := range map[*regexp.Regexp]func(http.ResponseWriter, *http.Request, string, string){
		manifestsPath: h.manifests, uploadsPath: h.uploads, blobsPath: h.blobs, tagsPath: h.tags,
	} {
		m := pattern.FindStringSubmatch(path)
		if m == nil || pattern == blobsPath && strings.HasPrefix(m[2], "uploads") {
			continue
		}
		if !validName.MatchString(m[1]) {
			fail(w, http.StatusBadRequest, "NAME_INVALID", m[1])
			return
		}
		// tagsPath has no second group.
		serve(w, r, m[1], append(m, "")[2])
		return
	}
	fail(w, http.StatusNotFound, "UNSUPPORTED", path)
}

// may reports whether a request is by who may push, or needs no login. A client that logs in asks for /v2/ first, and
// sends its login to a registry only that wants one there.
func (h handler) may(r *http.Request) bool {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if reads && (h.login == "" || strings.Trim(r.URL.Path, "/") != "v2") {
		return true
	}
	// Names and passwords are compared in a time that does not depend on where they differ.
	name, password, _ := r.BasicAuth()
	return h.login != "" && subtle.ConstantTimeCompare([]byte(name+":"+password), []byte(h.login)) == 1
}

// refuse answers 403 where nobody may push, and 401 with a challenge where a login is missing or
// wrong.
func (h handler) refuse(w http.ResponseWriter) {
	if h.login == "" {
		fail(w, http.StatusForbidden, "DENIED", "this registry takes no pushes")
		return
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="porthole"`)
	fail(w, http.StatusUnauthorized, "UNAUTHORIZED",
		"who pushes has to log in: the name and the password are in the file registry-login of the cluster's state folder")
}

// tags answers with all tags of a repository, 404 if it is not known.
func (h handler) tags(w http.ResponseWriter, _ *http.Request, name, _ string) {
	tags, err := h.store.tags(name)
	if errors.Is(err, os.ErrNotExist) {
		fail(w, http.StatusNotFound, "NAME_UNKNOWN", name)
		return
	}
	answer(w, map[string]any{"name": name, "tags": tags}, err)
}

// manifests serves and stores manifests, by a tag or a digest. It does not check that the blobs of a manifest are
// there.
func (h handler) manifests(w http.ResponseWriter, r *http.Request, name, reference string) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		d, kind, content, err := h.store.manifest(name, reference)
		if err != nil {
			fail(w, http.StatusNotFound, "MANIFEST_UNKNOWN", name+" has no "+reference)
			return
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Docker-Content-Digest", d.String())
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		if r.Method == http.MethodGet {
			w.Write(content)
		}

	case http.MethodPut:
		content, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxManifest))
		if err != nil {
			fail(w, http.StatusBadRequest, "MANIFEST_INVALID", err.Error())
			return
		}
		// A reference that is a digest must be that of the content; any other is a tag.
		tag := reference
		if want, err := digest.Parse(reference); err == nil {
			tag = ""
			if got := digest.FromBytes(content); got != want {
				fail(w, http.StatusBadRequest, "DIGEST_INVALID", fmt.Sprintf("manifest has digest %s", got))
				return
			}
		} else if !validTag.MatchString(tag) {
			fail(w, http.StatusBadRequest, "TAG_INVALID", tag)
			return
		}
		d, err := h.store.putManifest(name, tag, r.Header.Get("Content-Type"), content)
		if err != nil {
			fail(w, http.StatusInternalServerError, "UNKNOWN", err.Error())
			return
		}
		w.Header().Set("Docker-Content-Digest", d.String())
		w.Header().Set("Location", fmt.Sprintf("/v2/%s/manifests/%s", name, d))
		w.WriteHeader(http.StatusCreated)
	default:
		fail(w, http.StatusMethodNotAllowed, "UNSUPPORTED", r.Method)
	}
}

// blobs serves a blob, in ranges too. Every repository has every blob: only manifests belong to
// one.
func (h handler) blobs(w http.ResponseWriter, r *http.Request, name, reference string) {
	d, err := digest.Parse(reference)
	if err != nil {
		fail(w, http.StatusBadRequest, "DIGEST_INVALID", reference)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		fail(w, http.StatusMethodNotAllowed, "UNSUPPORTED", r.Method)
		return
	}
	if _, ok := h.store.hasBlob(d); !ok {
		fail(w, http.StatusNotFound, "BLOB_UNKNOWN", d.String())
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Docker-Content-Digest", d.String())
	http.ServeFile(w, r, h.store.blobPath(d))
}

// uploads takes a blob in one piece (POST or PUT with a digest) or in several (PATCH, then PUT).
func (h handler) uploads(w http.ResponseWriter, r *http.Request, name, id string) {
	want := digest.Digest(r.URL.Query().Get("digest"))
	if want != "" && want.Validate() != nil {
		fail(w, http.StatusBadRequest, "DIGEST_INVALID", want.String())
		return
	}

	switch {
	case r.Method == http.MethodPost && want == "":
		// An upload in parts gets a random id, and a file that grows.
		h.uploadState(w, name, rand.Text(), 0)
	case r.Method == http.MethodPost:
		h.finish(w, name, r.Body, want)
	case r.Method == http.MethodPatch && id != "":
		size, err := h.addPart(id, r.Body)
		if err != nil {
			fail(w, http.StatusInternalServerError, "BLOB_UPLOAD_INVALID", err.Error())
			return
		}
		h.uploadState(w, name, id, size)
	case r.Method == http.MethodPut && id != "" && want != "":
		if _, err := h.addPart(id, r.Body); err != nil {
			fail(w, http.StatusInternalServerError, "BLOB_UPLOAD_INVALID", err.Error())
			return
		}
		// What was collected is a blob only if it has the digest that the client names.
		f, err := os.Open(h.partPath(id))
		if err != nil {
			fail(w, http.StatusNotFound, "BLOB_UPLOAD_UNKNOWN", id)
			return
		}
		defer os.Remove(f.Name())
		defer f.Close()
		h.finish(w, name, f, want)
	default:
		fail(w, http.StatusMethodNotAllowed, "UNSUPPORTED", r.Method)
	}
}

// partPath is below the folder of the store; the id has letters and digits only, by uploadsPath.
func (h handler) partPath(id string) string { return filepath.Join(h.store.dir, "uploads", id) }

// addPart appends to an upload and returns how many bytes it has now.
func (h handler) addPart(id string, r io.Reader) (int64, error) {
	if err := os.MkdirAll(filepath.Dir(h.partPath(id)), 0o755); err != nil {
		return 0, err
	}
	f, err := os.OpenFile(h.partPath(id), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	if _, err := io.Copy(f, r); err != nil {
		f.Close()
		return 0, err
	}
	at, err := f.Seek(0, io.SeekCurrent)
	return at, errors.Join(err, f.Close())
}

// uploadState tells the client where the next part goes and how much is there.
func (h handler) uploadState(w http.ResponseWriter, name, id string, size int64) {
	w.Header().Set("Location", fmt.Sprintf("/v2/%s/blobs/uploads/%s", name, id))
	w.Header().Set("Docker-Upload-UUID", id)
	w.Header().Set("Range", fmt.Sprintf("0-%d", max(size-1, 0)))
	w.WriteHeader(http.StatusAccepted)
}

// finish stores a blob that must have the digest; other content is the client's mistake.
func (h handler) finish(w http.ResponseWriter, name string, content io.Reader, want digest.Digest) {
	d, _, err := h.store.putBlob(content, want)
	if err != nil {
		fail(w, http.StatusBadRequest, "DIGEST_INVALID", err.Error())
		return
	}
	w.Header().Set("Docker-Content-Digest", d.String())
	w.Header().Set("Location", fmt.Sprintf("/v2/%s/blobs/%s", name, d))
	w.WriteHeader(http.StatusCreated)
}

// answer writes a JSON object, or status 500 for an error.
func answer(w http.ResponseWriter, body any, err error) {
	if err != nil {
		fail(w, http.StatusInternalServerError, "UNKNOWN", err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(body)
}

// fail writes an error in the form of the distribution specification.
func fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"errors": []map[string]string{{"code": code, "message": message}}})
}
