package main

import (
	"testing"

	"porthole.dev/porthole/test/images"
)

// Each layer that an image names is there, and each image can be started or names no program on purpose.
func TestImagesNameLayers(t *testing.T) {
	known := parts("programs", "bundle")
	for _, i := range suiteImages() {
		if len(i.Tags) == 0 || i.Linux == nil {
			t.Errorf("%s has no tag or no Linux variant", i.Repository)
		}
		for _, v := range []*images.Variant{i.Linux, i.Windows} {
			if v == nil {
				continue
			}
			for _, name := range v.Layers {
				if known[name] == nil {
					t.Errorf("%s names layer %q, which nothing makes", i.Repository, name)
				}
			}
			if len(v.Entrypoint)+len(v.Args) == 0 {
				t.Errorf("%s starts nothing", i.Repository)
			}
		}
	}
}
