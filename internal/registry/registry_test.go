package registry

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"porthole.dev/porthole/internal/winbuild"
)

// served is a registry with documents by path, which lets in whoever has the right password.
type served struct {
	documents map[string]document
	password  string
	asked     []string
}

type document struct{ kind, text string }

func (s *served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	if _, password, _ := r.BasicAuth(); password != s.password {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	d, ok := s.documents[r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", d.kind)
	w.Header().Set("Docker-Content-Digest", digest.FromString(d.text).String())
	w.Header().Set("Content-Length", fmt.Sprint(len(d.text)))
	if r.Method == http.MethodGet {
		fmt.Fprint(w, d.text)
	}
}

// put keeps a document under its digest and, if it has one, its tag.
func (s *served) put(where, tag, kind string, of any) v1.Descriptor {
	data, err := json.Marshal(of)
	if err != nil {
		panic(err)
	}
	d := v1.Descriptor{MediaType: kind, Digest: digest.FromBytes(data), Size: int64(len(data))}
	s.documents["/v2/shop/app/"+where+"/"+d.Digest.String()] = document{kind, string(data)}
	if tag != "" {
		s.documents["/v2/shop/app/"+where+"/"+tag] = document{kind, string(data)}
	}
	return d
}

func newServed(t *testing.T) (s *served, host string) {
	t.Helper()
	s = &served{documents: map[string]document{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, strings.TrimPrefix(server.URL, "http://")
}

func platforms(t *testing.T, name string, o Options) (winbuild.Image, error) {
	t.Helper()
	image, err := Find(t.Context(), name, o)
	if err != nil {
		return winbuild.Image{}, err
	}
	return image.Platforms(t.Context())
}

// TestPlatforms: an index is enough; an image without one is known by its configuration.
func TestPlatforms(t *testing.T) {
	s, host := newServed(t)
	variant := func(os, version string) v1.Descriptor {
		return v1.Descriptor{MediaType: v1.MediaTypeImageManifest, Digest: digest.FromString(os + version), Size: 1,
			Platform: &v1.Platform{OS: os, Architecture: "amd64", OSVersion: version}}
	}
	s.put("manifests", "all", v1.MediaTypeImageIndex, v1.Index{MediaType: v1.MediaTypeImageIndex,
		Manifests: []v1.Descriptor{variant("linux", ""), variant("windows", "10.0.20348.1"),
			{MediaType: v1.MediaTypeImageManifest, Digest: digest.FromString("att"),
				Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"}}}})
	config := s.put("blobs", "", v1.MediaTypeImageConfig,
		v1.Image{Platform: v1.Platform{OS: "windows", Architecture: "amd64", OSVersion: "10.0.17763.1"}})
	s.put("manifests", "single", v1.MediaTypeImageManifest,
		v1.Manifest{MediaType: v1.MediaTypeImageManifest, Config: config})

	windows := winbuild.Platform{OS: "windows", Architecture: "amd64", Version: "10.0.20348.1",
		Digest: variant("windows", "10.0.20348.1").Digest.String()}
	linux := winbuild.Platform{OS: "linux", Architecture: "amd64", Digest: variant("linux", "").Digest.String()}
	for tag, want := range map[string]winbuild.Image{
		"all":    {Index: true, Platforms: []winbuild.Platform{linux, windows}},
		"single": {Platforms: []winbuild.Platform{{OS: "windows", Architecture: "amd64", Version: "10.0.17763.1"}}},
	} {
		s.asked = nil
		got, err := platforms(t, host+"/shop/app:"+tag, Options{})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", tag, got, err)
		}
		if tag == "all" && len(s.asked) != 2 { // one for the digest, one for the index
			t.Errorf("an index took the questions %v", s.asked)
		}
	}

	for tag, want := range map[string]string{"absent": "not found", "all:b": "image name"} {
		if _, err := platforms(t, host+"/shop/app:"+tag, Options{}); err == nil ||
			!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "shop/app") {
			t.Errorf("%s: %v", tag, err)
		}
	}

	s.password = "secret"
	if _, err := platforms(t, host+"/shop/app:all", Options{}); err == nil {
		t.Error("no password was needed")
	}
	if _, err := platforms(t, host+"/shop/app:all",
		Options{Login: Login{Username: "me", Password: "secret"}}); err != nil {
		t.Errorf("with the password: %v", err)
	}
}

// TestWrongContent: a registry that sends something other than what its digest says is not believed.
func TestWrongContent(t *testing.T) {
	s, host := newServed(t)
	d := s.put("manifests", "1", v1.MediaTypeImageIndex, v1.Index{})
	image, err := Find(t.Context(), host+"/shop/app:1", Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.documents["/v2/shop/app/manifests/"+d.Digest.String()] = document{v1.MediaTypeImageIndex, "{}"}
	if _, err := image.Document(t.Context(), d); err == nil || !strings.Contains(err.Error(), "has the digest") {
		t.Errorf("other content: %v", err)
	}
}

// TestBadDigests: an index whose entries have digests that are none is an error, not a panic.
func TestBadDigests(t *testing.T) {
	s, host := newServed(t)
	for i, bad := range []digest.Digest{"", "abc", "md5:0123", "sha256:xyz"} {
		d := v1.Descriptor{MediaType: v1.MediaTypeImageManifest, Digest: bad,
			Platform: &v1.Platform{OS: "windows", Architecture: "amd64", OSVersion: "10.0.20348.1"}}
		name := fmt.Sprintf("bad%d", i)
		s.put("manifests", name, v1.MediaTypeImageIndex,
			v1.Index{MediaType: v1.MediaTypeImageIndex, Manifests: []v1.Descriptor{d}})
		// a registry that answers anyway
		s.documents["/v2/shop/app/manifests/"+bad.String()] = document{v1.MediaTypeImageManifest, "{}"}
		if _, err := selected(t, host+"/shop/app:"+name, winbuild.Server2022); err == nil {
			t.Errorf("digest %q was accepted", bad)
		}
	}
}

func FuzzParseIndex(f *testing.F) {
	f.Add(
		[]byte(
			`{"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","platform":{"os":"windows","architecture":"amd64","os.version":"10.0.20348.1"}},{}]}`))

	f.Add([]byte(`{"manifests":[{"platform":{"os":"windows","os.version":"10.0.99999.1"}}]}`))
	f.Add([]byte(`{"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json"}]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		index, image, err := ParseIndex(data)
		if err != nil {
			return
		}
		if len(image.Platforms) > len(index.Manifests) || !image.Index {
			t.Errorf("%d platforms of %d manifests", len(image.Platforms), len(index.Manifests))
		}
		host := winbuild.Host{Version: winbuild.Version{Build: winbuild.Server2022, Revision: -1},
			Architecture: "amd64"}
		for _, i := range []winbuild.Isolation{winbuild.Process, winbuild.HyperV, winbuild.HostProcess,
			winbuild.UnknownIsolation} {
			a := winbuild.Check(image, host, i)
			if a.Outcome == winbuild.NotRun &&
				(image.Unnamed || a.Rule.Text == "" || a.Rule.Runs || image.Contents() == "") {
				t.Errorf("refused without a reason: %+v of %+v", a, image)
			}
			if a.Outcome == winbuild.Runs && !a.Rule.Runs {
				t.Errorf("runs against its rule: %+v", a)
			}
		}
	})
}
