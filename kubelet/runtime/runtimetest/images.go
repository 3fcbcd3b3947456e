package runtimetest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// imageSize is the size of every image, in bytes.
const imageSize = 10 << 20

// newImage makes up an image whose digest depends on its name.
func newImage(name string) *cri.Image {
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(name)))
	repository := name
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		repository = name[:i]
	}
	return &cri.Image{Id: digest, RepoTags: []string{name}, RepoDigests: []string{repository + "@" + digest},
		Size: imageSize}
}

// AddImage adds an image that no container uses.
func (f *Fake) AddImage(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.images = append(f.images, newImage(name))
}

// ImageNames returns the names of the images that are there.
func (f *Fake) ImageNames() (names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, img := range f.images {
		names = append(names, img.RepoTags...)
	}
	return names
}

// image finds an image by its id, name or digest, or nil; the caller holds the lock.
func (f *Fake) image(name string) *cri.Image {
	i := slices.IndexFunc(f.images, func(img *cri.Image) bool {
		return img.Id == name || slices.Contains(img.RepoTags, name) || slices.Contains(img.RepoDigests, name)
	})
	if i < 0 {
		return nil
	}
	return f.images[i]
}

// PullImage adds an image unless Registry has an error for it.
func (f imageServer) PullImage(ctx context.Context, r *cri.PullImageRequest) (*cri.PullImageResponse, error) {
	name := r.GetImage().GetImage()
	return answer(ctx, f.Fake, Call{Method: "PullImage", ID: name}, func() (*cri.PullImageResponse, error) {
		if f.Registry != nil {
			if err := f.Registry(name); err != nil {
				return nil, status.Errorf(codes.NotFound, "failed to pull and unpack image %q: %v", name, err)
			}
		}
		img := f.image(name)
		if img == nil {
			img = newImage(name)
			f.images = append(f.images, img)
		}
		return &cri.PullImageResponse{ImageRef: img.Id}, nil
	})
}

// ImageStatus reads one image; an absent one is an empty answer.
func (f imageServer) ImageStatus(ctx context.Context, r *cri.ImageStatusRequest) (*cri.ImageStatusResponse, error) {
	return answer(ctx, f.Fake, Call{Method: "ImageStatus", ID: r.GetImage().GetImage()},
		func() (*cri.ImageStatusResponse, error) {
			return &cri.ImageStatusResponse{Image: f.image(r.GetImage().GetImage())}, nil
		})
}

// ListImages lists all images, or the one that the filter names.
func (f imageServer) ListImages(ctx context.Context, r *cri.ListImagesRequest) (*cri.ListImagesResponse, error) {
	return answer(ctx, f.Fake, Call{Method: "ListImages"}, func() (*cri.ListImagesResponse, error) {
		name := r.GetFilter().GetImage().GetImage()
		if name == "" {
			return &cri.ListImagesResponse{Images: slices.Clone(f.images)}, nil
		}
		out := &cri.ListImagesResponse{}
		if img := f.image(name); img != nil {
			out.Images = append(out.Images, img)
		}
		return out, nil
	})
}

// RemoveImage removes an image, also one in use. It succeeds if the image is not known.
func (f imageServer) RemoveImage(ctx context.Context, r *cri.RemoveImageRequest) (*cri.RemoveImageResponse, error) {
	return answer(ctx, f.Fake, Call{Method: "RemoveImage", ID: r.GetImage().GetImage()},
		func() (*cri.RemoveImageResponse, error) {
			img := f.image(r.GetImage().GetImage())
			f.images = slices.DeleteFunc(f.images, func(other *cri.Image) bool { return other == img })
			return &cri.RemoveImageResponse{}, nil
		})
}
