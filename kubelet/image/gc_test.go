package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// shelf is a runtime with images of 10 bytes each, on a disk of 100 bytes.
type shelf struct {
	images  []*cri.Image
	used    []string
	stuck   string // cannot be removed
	removed []string
}

func (s *shelf) ListImages(context.Context, *cri.ListImagesRequest, ...grpc.CallOption) (*cri.ListImagesResponse,
	error) {
	return &cri.ListImagesResponse{Images: s.images}, nil
}

func (s *shelf) ListContainers(context.Context, *cri.ListContainersRequest,
	...grpc.CallOption) (*cri.ListContainersResponse, error) {
	r := &cri.ListContainersResponse{}
	for _, name := range s.used {
		r.Containers = append(r.Containers, &cri.Container{Image: &cri.ImageSpec{Image: name}})
	}
	return r, nil
}

func (s *shelf) ImageFsInfo(context.Context, *cri.ImageFsInfoRequest, ...grpc.CallOption) (*cri.ImageFsInfoResponse,
	error) {
	return &cri.ImageFsInfoResponse{
		ImageFilesystems: []*cri.FilesystemUsage{{FsId: &cri.FilesystemIdentifier{Mountpoint: "/images"}}}}, nil
}

func (s *shelf) RemoveImage(_ context.Context, r *cri.RemoveImageRequest,
	_ ...grpc.CallOption) (*cri.RemoveImageResponse, error) {
	if r.Image.Image == s.stuck {
		return nil, errors.New("in use")
	}
	s.removed = append(s.removed, r.Image.Image)
	s.images = slices.DeleteFunc(s.images, func(i *cri.Image) bool { return i.Id == r.Image.Image })
	return &cri.RemoveImageResponse{}, nil
}

func (s *shelf) put(ids ...string) {
	for _, id := range ids {
		s.images = append(s.images,
			&cri.Image{Id: id, Size: 10, RepoTags: []string{"tag-of-" + id}, Pinned: id == "pinned"})
	}
}

// imagesOf and runtimeOf separate the two services, which share method names.
type imagesOf struct {
	cri.ImageServiceClient
	s *shelf
}

func (i imagesOf) ListImages(c context.Context, r *cri.ListImagesRequest,
	o ...grpc.CallOption) (*cri.ListImagesResponse, error) {
	return i.s.ListImages(c, r, o...)
}

func (i imagesOf) ImageFsInfo(c context.Context, r *cri.ImageFsInfoRequest,
	o ...grpc.CallOption) (*cri.ImageFsInfoResponse, error) {
	return i.s.ImageFsInfo(c, r, o...)
}

func (i imagesOf) RemoveImage(c context.Context, r *cri.RemoveImageRequest,
	o ...grpc.CallOption) (*cri.RemoveImageResponse, error) {
	return i.s.RemoveImage(c, r, o...)
}

type runtimeOf struct {
	cri.RuntimeServiceClient
	s *shelf
}

func (r runtimeOf) ListContainers(c context.Context, q *cri.ListContainersRequest,
	o ...grpc.CallOption) (*cri.ListContainersResponse, error) {
	return r.s.ListContainers(c, q, o...)
}

func TestCollect(t *testing.T) {
	for _, c := range []struct {
		name      string
		available uint64
		used      []string // in the last round; all were in use before, a longest ago
		stuck     string
		removed   string
		events    string
		fails     bool
	}{
		{"there is room", 16, nil, "", "", "", false},
		{"full: the longest unused first, down to 80 percent", 5, []string{"tag-of-c"}, "", "a b", "", false},
		{"what is in use stays", 5, []string{"a", "tag-of-b", "c"}, "", "d", "FreeDiskSpaceFailed", true},
		{"one cannot be removed: another in its place", 15, nil, "a", "b", "", true},
		{"the pinned one stays", 0, nil, "", "a b", "", false},
	} {
		s := &shelf{stuck: c.stuck}
		s.put("a", "b", "c", "pinned", "d")
		clock := time.Unix(1000, 0)
		available := uint64(90)
		var events []string
		g := &GC{Policy: GCPolicy{High: 85, Low: 80, MinAge: 2 * time.Minute}, Images: imagesOf{s: s},
			Runtime: runtimeOf{s: s},
			Disk: func(path string) (uint64, uint64, error) {
				if path != "/images" {
					return 0, 0, fmt.Errorf("asked about %s", path)
				}
				return 100, available, nil
			},
			Event: func(_, reason, _ string) { events = append(events, reason) },
			now:   func() time.Time { return clock }}

		for _, used := range []string{"a", "b", "c", "d"} { // rounds a minute apart
			s.used = []string{used}
			if err := g.Collect(context.Background()); err != nil {
				t.Fatal(err)
			}
			clock = clock.Add(time.Minute)
		}
		s.used, available = c.used, c.available
		err := g.Collect(context.Background())
		if got := strings.Join(s.removed, " "); got != c.removed {
			t.Errorf("%s: removed %q, want %q", c.name, got, c.removed)
		}
		if got := strings.Join(events, " "); got != c.events || (err != nil) != c.fails {
			t.Errorf("%s: events %q, error %v, want %q", c.name, got, err, c.events)
		}
	}
}

func TestLargest(t *testing.T) {
	s := &shelf{images: []*cri.Image{
		{Id: "small", Size: 5, RepoTags: []string{"a/small:1"}},
		{Id: "large", Size: 50, RepoTags: []string{"a/large:1", "a/large:2", "a/large:3", "a/large:4"},
			RepoDigests: []string{"a/large@sha256:1", "a/large@sha256:2"}},
		{Id: "nameless", Size: 500},
	}}
	g := &GC{Policy: GCPolicy{High: 100}, Images: imagesOf{s: s}, Runtime: runtimeOf{s: s}}
	if got := g.Largest(-1); len(got) > 0 {
		t.Errorf("before the first round: %v", got)
	}
	if err := g.Collect(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(g.Largest(
		-1)); got != "[{[a/large@sha256:1 a/large@sha256:2 a/large:1 a/large:2 a/large:3] 50} {[a/small:1] 5}]" {
		t.Errorf("images %s", got)
	}
	if got := g.Largest(1); len(got) != 1 || got[0].SizeBytes != 50 || len(g.Largest(0)) > 0 {
		t.Errorf("at most one: %v", got)
	}
}

func TestCollectByAge(t *testing.T) {
	s := &shelf{}
	s.put("a", "b")
	clock := time.Unix(1000, 0)
	var events []string
	g := &GC{Policy: GCPolicy{High: 100, Low: 80, MinAge: time.Minute, MaxAge: time.Hour}, Images: imagesOf{s: s},
		Runtime: runtimeOf{s: s},
		Event:   func(_, reason, _ string) { events = append(events, reason) }, now: func() time.Time { return clock }}

	s.used = []string{"b"}
	for range 4 {
		if err := g.Collect(context.Background()); err != nil {
			t.Fatal(err)
		}
		clock = clock.Add(25 * time.Minute)
	}
	if got := strings.Join(s.removed, " "); got != "a" {
		t.Errorf("removed %q, want a", got)
	}

	g.Policy.High, g.Disk = 85, func(string) (uint64, uint64, error) { return 0, 0, nil }
	for range 2 {
		if g.Collect(context.Background()) == nil {
			t.Error("a disk without a size is no error")
		}
	}
	if got := strings.Join(events, " "); got != "InvalidDiskCapacity InvalidDiskCapacity ImageGCFailed" {
		t.Errorf("events %q", got)
	}
}
