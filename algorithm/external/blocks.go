package external

import (
	"sync"
)

// blocks computes results of users in blocks, since a call of the program costs more than a user. A block is computed once,
// by the first caller that needs it, and the last few are kept.
type blocks[T any] struct {
	size int // users
	most int // blocks that are kept
	mu   sync.Mutex
	kept []*block[T]
}

// block holds the results of the users of a block.
type block[T any] struct {
	of     job
	number int
	once   sync.Once
	list   []T
	err    error
}

// job identifies a computation by its model, its round and what is expected.
type job struct {
	model    *sent
	round    uint64
	expected *expectation
}

// one returns the result of a user. compute makes the results of the users from one up to another.
func (b *blocks[T]) one(of job, user, users int, compute func(from, to int) ([]T, error)) (result T, err error) {
	number := user / b.size
	found := b.find(of, number)
	found.once.Do(func() { found.list, found.err = compute(number*b.size, min((number+1)*b.size, users)) })
	if found.err != nil {
		return result, found.err
	}
	return found.list[user-number*b.size], nil
}

func (b *blocks[T]) find(of job, number int) *block[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.kept {
		if x.of == of && x.number == number {
			return x
		}
	}
	x := &block[T]{of: of, number: number}
	b.kept = append(b.kept, x)
	b.kept = b.kept[max(0, len(b.kept)-max(b.most, 1)):]
	return x
}

// blockBytes limits the numbers of a block, in bytes, and mostUsers the users.
const (
	blockBytes = 8 << 20
	mostUsers  = 256
)

// fewBlocks is the number of blocks that are kept at least: the workers of a run are within a few blocks of each other.
const fewBlocks = 4

// newBlocks returns blocks for results of so many numbers a user. At most so many bytes are kept, or else a few blocks.
func newBlocks[T any](numbers, most int) *blocks[T] {
	size := min(max(blockBytes/(8*max(numbers, 1)), 1), mostUsers)
	return &blocks[T]{size: size, most: max(most/(8*size*max(numbers, 1)), fewBlocks)}
}
