package model

import "sync"

// Room is where many users of one process keep a row of numbers each: one piece of memory, made when the first keeps something.
// It is safe for concurrent use for different users.
type Room struct {
	users, width int
	once         sync.Once
	rows         *Matrix
}

// NewRoom is for so many users, with rows of that width.
func NewRoom(users, width int) *Room { return &Room{users: users, width: width} }

// Row is a user's, zeros at first.
func (r *Room) Row(user int) []float64 { return r.Rows().Row(user) }

// Rows are those of all users, not a copy.
func (r *Room) Rows() *Matrix {
	r.once.Do(func() { r.rows = NewMatrix(r.users, r.width) })
	return r.rows
}
