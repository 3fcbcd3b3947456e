package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// GCPolicy says when unused images are removed.
type GCPolicy struct {
	// High and Low are percentages of the images' disk. When at least High is used, images are removed until Low is
	// reached. With High 100 no image is removed to free space.
	High, Low int
	// MinAge is how long an image is kept at least, counted from when it was first seen.
	MinAge time.Duration
	// MaxAge is how long an image may be unused; 0 is no limit.
	MaxAge time.Duration
}

// GC removes images that no container uses, those unused for the longest time first. It is safe for concurrent use:
// rounds follow each other.
type GC struct {
	Policy  GCPolicy
	Images  cri.ImageServiceClient
	Runtime cri.RuntimeServiceClient
	// Disk returns the size of the file system that path is on, and how much of it is free, in bytes.
	Disk func(path string) (capacity, available uint64, err error)
	// Verify forgets images that are gone; nil remembers none.
	Verify *Verifier
	// Removed is told why an image was removed: age or space; nil for nobody.
	Removed func(reason string)
	// Event records an event about the node.
	Event func(eventType, reason, message string)

	mu     sync.Mutex // held during a round
	now    func() time.Time
	began  time.Time
	seen   map[string]record
	listed []*cri.Image // by the last round
	failed int          // rounds in a row
}

// record is what GC remembers about an image between rounds.
type record struct {
	first, used time.Time
	size        uint64
	pinned      bool
}

// Collect runs one round. Rounds should be a few minutes apart.
func (g *GC) Collect(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.begin()
	began := g.now()
	err := g.collect(ctx)
	if err == nil {
		g.failed = 0
		if g.Verify != nil {
			g.Verify.Prune(g.ids(), began)
		}
		return nil
	}
	if g.failed++; g.failed > 1 { // at the start statistics may not be there yet
		g.Event(v1.EventTypeWarning, "ImageGCFailed", err.Error())
	}
	return err
}

// ids are those of the images that the last round found.
func (g *GC) ids() (out []string) {
	for _, i := range g.listed {
		out = append(out, i.Id)
	}
	return out
}

// Reclaim removes all images that may be removed, because the node runs out of disk space: those that no container
// uses and that are older than Policy.MinAge. It returns how many bytes they had.
func (g *GC) Reclaim(ctx context.Context) (freed int64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.begin()
	now := g.now()
	if err := g.observe(ctx, now); err != nil {
		return 0, err
	}
	return g.remove(ctx, forSpace, g.idle(now), math.MaxInt64)
}

func (g *GC) begin() {
	if g.now == nil {
		g.now = time.Now
	}
	if g.began.IsZero() {
		g.began = g.now()
	}
}

// maxNames bounds the names of one image in a node's status. Upstream's value.
const maxNames = 5

// Largest returns the images that the last round found, in the form of a node's status: the largest first, and at most
// most of them. A negative most is no limit.
func (g *GC) Largest(most int) []v1.ContainerImage {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []v1.ContainerImage
	for _, i := range g.listed {
		names := slices.Concat(i.RepoDigests, i.RepoTags)
		if len(names) > 0 {
			out = append(out, v1.ContainerImage{Names: names[:min(len(names), maxNames)], SizeBytes: int64(i.Size)})
		}
	}
	slices.SortFunc(out, func(a, b v1.ContainerImage) int {
		return cmp.Or(cmp.Compare(b.SizeBytes, a.SizeBytes), cmp.Compare(a.Names[0], b.Names[0]))
	})
	if most >= 0 {
		out = out[:min(len(out), most)]
	}
	return out
}

// collect does one round: it notes which images are in use now, removes those that nothing has used for Policy.MaxAge,
// and then frees space if the disk is too full. A failed observation ends the round, so that nothing is removed on
// incomplete knowledge.
func (g *GC) collect(ctx context.Context) error {
	now := g.now()
	if err := g.observe(ctx, now); err != nil {
		return err
	}
	var errs []error
	if age := g.Policy.MaxAge; age > 0 && now.Sub(g.began) > age { // before that, it is not known what was used
		_, err := g.remove(ctx, forAge, g.old(now, age), math.MaxInt64)
		errs = append(errs, err)
	}
	if g.Policy.High < 100 {
		errs = append(errs, g.makeRoom(ctx, now))
	}
	return errors.Join(errs...)
}

// observe records which images exist and which are in use.
func (g *GC) observe(ctx context.Context, now time.Time) error {
	images, err := g.Images.ListImages(ctx, &cri.ListImagesRequest{})
	if err != nil {
		return fmt.Errorf("listing images: %w", err)
	}
	containers, err := g.Runtime.ListContainers(ctx, &cri.ListContainersRequest{})
	if err != nil {
		return fmt.Errorf("listing containers: %w", err)
	}

	g.listed = slices.Clone(images.Images)
	uses := map[string]bool{}
	for _, c := range containers.Containers {
		uses[c.GetImage().GetImage()], uses[c.ImageRef], uses[c.ImageId] = true, true, true
	}
	delete(uses, "")

	before := g.seen
	g.seen = map[string]record{}
	for _, i := range images.Images {
		r, known := before[i.Id]
		if !known {
			r.first = now
		}
		r.size, r.pinned = i.Size, i.Pinned
		names := append(append([]string{i.Id}, i.RepoTags...), i.RepoDigests...)
		if slices.ContainsFunc(names, func(n string) bool { return uses[n] }) {
			r.used = now
		}
		g.seen[i.Id] = r
	}
	return nil
}

// idle returns the images that may be removed: those unused for the longest time first, then those known for the
// longest.
func (g *GC) idle(now time.Time) (ids []string) {
	for id, r := range g.seen {
		if !r.pinned && r.used.Before(now) && now.Sub(r.first) >= g.Policy.MinAge {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		x, y := g.seen[a], g.seen[b]
		return cmp.Or(x.used.Compare(y.used), x.first.Compare(y.first), cmp.Compare(a, b))
	})
	return ids
}

// old returns the images that may be removed and have been unused for longer than age.
func (g *GC) old(now time.Time, age time.Duration) []string {
	return slices.DeleteFunc(g.idle(now), func(id string) bool {
		r := g.seen[id]
		last := r.used
		if last.IsZero() {
			last = r.first
		}
		return now.Sub(last) <= age
	})
}

// Path asks the runtime for the folder of its images. It may be called during a round.
func (g *GC) Path(ctx context.Context) (string, error) {
	images, _, err := g.Folders(ctx)
	return images, err
}

// Folders asks the runtime for the folder of its images, and for that of the writable layers of containers; the same
// if it does not name another one. It may be called during a round.
func (g *GC) Folders(ctx context.Context) (images, layers string, err error) {
	info, err := g.Images.ImageFsInfo(ctx, &cri.ImageFsInfoRequest{})
	if err != nil {
		return "", "", fmt.Errorf("asking where images are: %w", err)
	}
	if len(info.ImageFilesystems) == 0 {
		return "", "", errors.New("the runtime names no file system of images")
	}
	images = info.ImageFilesystems[0].GetFsId().GetMountpoint()
	layers = images
	if list := info.GetContainerFilesystems(); len(list) > 0 {
		layers = cmp.Or(list[0].GetFsId().GetMountpoint(), images)
	}
	return images, layers, nil
}

// makeRoom removes images if their disk is too full.
func (g *GC) makeRoom(ctx context.Context, now time.Time) error {
	path, err := g.Path(ctx)
	if err != nil {
		return err
	}
	capacity, available, err := g.Disk(path)
	if err != nil {
		return fmt.Errorf("reading the size of the disk of images at %s: %w", path, err)
	}
	if capacity == 0 {
		err := errors.New("invalid capacity 0 on image filesystem")
		g.Event(v1.EventTypeWarning, "InvalidDiskCapacity", err.Error())
		return err
	}

	available = min(available, capacity)
	if used := 100 - int(available*100/capacity); used < g.Policy.High {
		return nil
	}

	want := int64(capacity*uint64(100-g.Policy.Low)/100) - int64(available)
	freed, err := g.remove(ctx, forSpace, g.idle(now), want)
	if freed < want {
		text := fmt.Sprintf(
			"Insufficient free disk space on the node's image filesystem (%d of %d bytes free). Failed to free sufficient space by deleting unused images (freed %d bytes of %d)",
			available, capacity, freed, want)
		g.Event(v1.EventTypeWarning, "FreeDiskSpaceFailed", text)
		return errors.Join(errors.New(text), err)
	}
	return err
}

// Why images are removed, in upstream's words.
const (
	forAge   = "age"
	forSpace = "space"
)

// remove removes images one after the other until want bytes are free. It skips an image that cannot be removed.
func (g *GC) remove(ctx context.Context, reason string, ids []string, want int64) (freed int64, err error) {
	for _, id := range ids {
		if freed >= want {
			break
		}
		if _, one := g.Images.RemoveImage(ctx, &cri.RemoveImageRequest{Image: &cri.ImageSpec{Image: id}}); one != nil {
			err = errors.Join(err, fmt.Errorf("removing image %s: %w", id, one))
			continue
		}
		if g.Removed != nil {
			g.Removed(reason)
		}
		freed += int64(g.seen[id].size)
		delete(g.seen, id)
		g.listed = slices.DeleteFunc(g.listed, func(i *cri.Image) bool { return i.Id == id })
	}
	return freed, err
}
