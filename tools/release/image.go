package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// image makes the image of deploy/Dockerfile for each platform with Linux: one OCI archive.
func (r *release) image() error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	none := true
	for _, p := range r.platforms {
		if p.os != "linux" {
			continue
		}
		none = false
		img, err := r.imageOf(p)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			MediaType: types.OCIManifestSchema1, Platform: &v1.Platform{OS: p.os, Architecture: p.arch},
		}})
	}
	if none {
		return nil
	}
	// An archive has one index around the index of the image, which carries its name.
	name := map[string]string{"org.opencontainers.image.ref.name": r.number()}
	outer := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex),
		mutate.IndexAddendum{Add: index, Descriptor: v1.Descriptor{MediaType: types.OCIImageIndex, Annotations: name}})
	dir := filepath.Join(r.scratch, "oci")
	if _, err := layout.Write(dir, outer); err != nil {
		return err
	}
	var files []entry
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		files = append(files, entry{filepath.ToSlash(name), 0o644, b})
		return err
	})
	if err != nil {
		return err
	}
	b, err := tarred(files, "", r.time)
	if err != nil {
		return err
	}
	return r.write(fmt.Sprintf("fednode_%s_oci.tar", r.number()), b)
}

// imageOf returns the image of a platform: fednode, and a folder for its state, whose owner runs it.
func (r *release) imageOf(p platform) (v1.Image, error) {
	from, _ := r.command(p, "fednode")
	command, err := os.ReadFile(from)
	if err != nil {
		return nil, err
	}
	const user = 65532
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	if err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "fednode", Mode: 0o755, Size: int64(len(command)), ModTime: r.time}); err != nil {
		return nil, err
	}
	if _, err = w.Write(command); err != nil {
		return nil, err
	}
	if err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "state/", Mode: 0o700, Uid: user, Gid: user, ModTime: r.time}); err != nil {
		return nil, err
	}
	if err = w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if img, err = mutate.AppendLayers(img, layer); err != nil {
		return nil, err
	}
	return mutate.ConfigFile(img, r.config(p, img, fmt.Sprintf("%d:%d", user, user)))
}

// config returns the configuration of an image, as deploy/Dockerfile has it.
func (r *release) config(p platform, img v1.Image, user string) *v1.ConfigFile {
	c := &v1.ConfigFile{OS: p.os, Architecture: p.arch, Created: v1.Time{Time: r.time}}
	if before, err := img.ConfigFile(); err == nil {
		c.RootFS = before.RootFS
	}
	c.Config = v1.Config{
		User: user, Entrypoint: []string{"/fednode"}, ExposedPorts: map[string]struct{}{"7946/tcp": {}, "7946/udp": {}},
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "/fednode", "status"}, Interval: 10 * time.Second, Timeout: 5 * time.Second, StartPeriod: 10 * time.Second},
		Labels: map[string]string{
			"org.opencontainers.image.version": r.number(), "org.opencontainers.image.revision": r.revision,
			"org.opencontainers.image.source": "https://github.com/fedsim/fedsim", "org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return c
}
