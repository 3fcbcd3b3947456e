package registry

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/containerd/containerd/v2/core/images"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"porthole.dev/porthole/internal/winbuild"
)

// ParseIndex parses an index of OCI or Docker and returns it with the platforms of its variants. It leaves out entries
// for the platform unknown/unknown, which are attestations about images.
func ParseIndex(data []byte) (v1.Index, winbuild.Image, error) {
	var index v1.Index
	if err := json.Unmarshal(data, &index); err != nil {
		return index, winbuild.Image{}, fmt.Errorf("reading an index: %w", err)
	}
	if len(index.Manifests) == 0 {
		return index, winbuild.Image{}, errors.New("reading an index: it has no manifests")
	}

	image := winbuild.Image{Index: true}
	for _, d := range index.Manifests {
		switch p := d.Platform; {
		case p == nil || images.IsIndexType(d.MediaType):
			image.Unnamed = true
		case p.OS == "unknown" || p.Architecture == "unknown":
		default:
			named := platform(*p)
			named.Digest = d.Digest.String()
			image.Platforms = append(image.Platforms, named)
		}
	}
	return index, image, nil
}

// parseConfig reads the configuration of an image without an index and returns its platform.
func parseConfig(data []byte) (winbuild.Image, error) {
	var config v1.Image
	if err := json.Unmarshal(data, &config); err != nil {
		return winbuild.Image{}, fmt.Errorf("reading the configuration of an image: %w", err)
	}
	if config.OS == "" {
		return winbuild.Image{Unnamed: true}, nil
	}
	return winbuild.Image{Platforms: []winbuild.Platform{platform(config.Platform)}}, nil
}

func platform(p v1.Platform) winbuild.Platform {
	return winbuild.Platform{OS: p.OS, Architecture: p.Architecture, Version: p.OSVersion}
}
