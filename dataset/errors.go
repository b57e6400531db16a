package dataset

import (
	"errors"
	"fmt"
)

var (
	// ErrNoRatings is wrapped by the error of a file that holds no rating, and of a
	// folder or archive that holds no file of ratings.
	ErrNoRatings = errors.New("no ratings")

	// ErrOffScale is matched by the error of a rating that is outside the rating scale.
	ErrOffScale = errors.New("off the scale")
)

// FileError is an error in the content of a file: what is wrong, where, and what would be right.
type FileError struct {
	File string // path as it was opened
	Line int    // first line of the offending record, counted from 1
	Err  error  // the reason
}

// Error returns FILE:LINE: reason.
func (e *FileError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }

// Unwrap returns the reason.
func (e *FileError) Unwrap() error { return e.Err }
