package fedssp

import (
	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/fedssp/settings"
	"github.com/fedsim/fedsim/fedssp/stage"
)

// family is an algorithm of this package. In each algorithm users send sufficient statistics; the
// form holds the differences.
type family struct {
	about  algorithm.About
	stages []stage.Stage // the releases of a run are among them
	form   settings.Form
}

func (f *family) About() *algorithm.About { return &f.about }

func (f *family) FormOf() *settings.Form { return &f.form }
