package main

import (
	"os"
	"path/filepath"
)

// wheels makes a wheel of the Python package for each platform, with the command that the archive has.
func (r *release) wheels() error {
	if !r.withWheels {
		return nil
	}
	for _, p := range r.platforms {
		command, _ := r.command(p, "fedsim")
		path, err := r.outputWith([]string{"FEDSIM_COMMAND=" + command}, filepath.Join(r.root, "python", "wheel.sh"), r.to, p.os, p.arch)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		r.sums[filepath.Base(path)] = digest(b)
	}
	return nil
}
