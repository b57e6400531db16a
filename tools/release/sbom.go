package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// sbom lists what is in the commands of a platform, in the format CycloneDX: the modules that the linker wrote into them,
// and the standard library.
func (r *release) sbom(p platform) ([]byte, error) {
	modules := map[string]cdx.Component{}
	var commands []cdx.Component
	for _, name := range names {
		from, file := r.command(p, name)
		info, err := buildinfo.ReadFile(from)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		b, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		commands = append(commands, cdx.Component{
			BOMRef: file, Type: cdx.ComponentTypeApplication, Name: name, Version: r.version,
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: digest(b)}},
		})
		for _, m := range append(info.Deps, &debug.Module{Path: "std", Version: info.GoVersion}) {
			if m.Replace != nil {
				return nil, fmt.Errorf("%s: %s is replaced, which go install refuses", from, m.Path)
			}
			c := module(m)
			modules[c.BOMRef] = c
		}
	}
	list := slices.AppendSeq(commands, maps.Values(modules))
	slices.SortStableFunc(list[len(commands):], func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: r.time.Format(time.RFC3339),
		Component: &cdx.Component{
			BOMRef: "fedsim", Type: cdx.ComponentTypeApplication, Name: "fedsim", Version: r.version,
			Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
			PackageURL: "pkg:golang/github.com/fedsim/fedsim@" + r.version,
		},
		Properties: &[]cdx.Property{{Name: "revision", Value: r.revision}, {Name: "platform", Value: p.os + "/" + p.arch}},
	}
	bom.Components = &list
	var out bytes.Buffer
	err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	return out.Bytes(), err
}

// module returns a Go module as a component.
func module(m *debug.Module) cdx.Component {
	purl := "pkg:golang/" + m.Path + "@" + m.Version
	c := cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: purl}
	if m.Sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go.sum", Value: m.Sum}}
	}
	return c
}
