package fedssp

import (
	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/fedssp/settings"
)

// family is an algorithm of this package. In each algorithm users send sufficient statistics; the
// form holds the differences.
type family struct {
	about algorithm.About
	form  settings.Form
}

func (f *family) About() *algorithm.About { return &f.about }

func (f *family) FormOf() *settings.Form { return &f.form }
