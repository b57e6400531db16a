package model

import "sync"

// RowArena is where many users of one process keep a row of numbers each: one piece of memory, made when the first keeps something.
// It is safe for concurrent use for different users.
type RowArena struct {
	users, width int
	once         sync.Once
	rows         *Matrix
}

// NewRowArena is for so many users, with rows of that width.
func NewRowArena(users, width int) *RowArena { return &RowArena{users: users, width: width} }

// Row is a user's, zeros at first.
func (r *RowArena) Row(user int) []float64 { return r.Rows().Row(user) }

// Rows returns the rows of all users, not a copy.
func (r *RowArena) Rows() *Matrix {
	r.once.Do(func() { r.rows = NewMatrix(r.users, r.width) })
	return r.rows
}
