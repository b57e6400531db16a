package command

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/verb"
)

type keysCmd struct {
	Pattern string `arg:"" optional:"" help:"List only keys whose name or meaning contains this text."`

	Algorithm string `placeholder:"NAME" help:"List only the keys of this algorithm."`
	Format    string `enum:"table,json" default:"table" help:"table or json."`
}

type keyRow struct {
	Key     string `json:"key"`
	Values  string `json:"values"`
	Default string `json:"default"`
	Help    string `json:"help"`
}

// Run prints the keys that the pattern and the algorithm leave, a line each.
func (c *keysCmd) Run(s verb.Streams) error {
	of := config.Keys()
	if c.Algorithm != "" {
		a, err := algorithmNamed(c.Algorithm)
		if err != nil {
			return cli.Misusef("--algorithm: %w", err)
		}
		of = a.About().Used()
	}
	wanted := strings.ToLower(c.Pattern)
	list := make([]keyRow, 0, len(of))
	for _, k := range config.Keys() {
		if slices.Contains(of, k) && strings.Contains(strings.ToLower(k.Name+" "+k.Help), wanted) {
			list = append(list, keyRow{k.Name, k.Values(), k.Standard(), k.Help})
		}
	}
	if c.Format == "json" {
		return cli.PrintJSON(s.Out, list)
	}
	if len(list) == 0 {
		return cli.Misusef("no key has %q in its name or meaning; %s", c.Pattern, config.Near(c.Pattern))
	}
	width := screen.Width(s.Out)
	var b strings.Builder
	for _, r := range list {
		b.WriteString(screen.Fit(fmt.Sprintf("%s  (%s; default %s)\n", r.Key, r.Values, r.Default), width) + screen.Wrapped(r.Help, "    ", width))
	}
	_, err := io.WriteString(s.Out, b.String())
	return err
}

// algorithmNamed finds an algorithm by its name, in any case of letters.
func algorithmNamed(name string) (algorithm.Algorithm, error) {
	var c config.Config
	algorithm.Name.Set(&c, strings.ToLower(name))
	for _, p := range c.Problems() {
		if p.Key == algorithm.Name.Key {
			return nil, fmt.Errorf("%s", p.Reason)
		}
	}
	return algorithm.Of(c), nil
}
