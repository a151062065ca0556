package wire

// Object is the object that is read.
type Object struct {
	Name []byte // of the member whose value comes next

	r     *Reader
	depth int
	any   bool
	seen  [2]uint64
}

// MaxFields is how many fields a message may have that is read.
const MaxFields = 128

// Object begins to read an object; Next goes from member to member.
func (r *Reader) Object() Object {
	if !r.take('{') {
		r.want("an object")
	}
	r.path = append(r.path, step{})
	return Object{r: r, depth: len(r.path)}
}

// Next reads the name of the next member.
func (o *Object) Next() bool {
	r := o.r
	if r.err != nil {
		return false
	}
	r.path = r.path[:o.depth-1]
	if r.take('}') {
		return false
	}
	if o.any && !r.take(',') || r.peek() != '"' {
		r.malformed()
		return false
	}
	o.any = true
	if o.Name = r.text(); o.Name == nil {
		o.Name = []byte{}
	}
	if r.err == nil && !r.take(':') {
		r.malformed()
	}
	r.path = append(r.path, step{name: o.Name})
	if o.depth == 1 {
		for _, name := range r.without {
			if name == string(o.Name) {
				r.refuse("UNKNOWN_FIELD", "there is no such field; it is in the path")
			}
		}
	}
	return r.err == nil
}

// Unknown refuses a member that the message does not have.
func (o *Object) Unknown() { o.r.refuse("UNKNOWN_FIELD", "there is no such field") }

// Once refuses a member that was there, in any spelling.
func (o *Object) Once(field int) {
	if o.seen[field/64]&(1<<(field%64)) != 0 {
		o.r.refuse("DUPLICATE_FIELD", "the field is there twice")
	}
	o.seen[field/64] |= 1 << (field % 64)
}

// One refuses a member of a oneof of which there was another.
func (o *Object) One(other *string) {
	if *other != "" {
		o.r.refuse("ONEOF_CONFLICT", "only one of %s and %s can be set", *other, o.Name)
	}
	*other = string(o.Name)
}

// Key returns the name of the member as the key of a map, whose keys are there once.
func Key[V any](o *Object, m map[string]V) string {
	name := string(o.Name)
	if _, twice := m[name]; twice {
		o.r.unfit("duplicate map key %q", name)
	}
	return name
}

// Array is the array that is read.
type Array struct {
	r     *Reader
	depth int
	index int
}

// Array begins to read an array; Next goes from element to element.
func (r *Reader) Array() Array {
	if !r.take('[') {
		r.want("an array")
	}
	r.path = append(r.path, step{index: -1})
	return Array{r: r, depth: len(r.path), index: -1}
}

// Next reports whether there is another element.
func (a *Array) Next() bool {
	r := a.r
	if r.err != nil {
		return false
	}
	r.path = r.path[:a.depth-1]
	if r.take(']') {
		return false
	}
	if a.index++; a.index > 0 && !r.take(',') {
		r.malformed()
		return false
	}
	if c := r.peek(); c == ']' || c == 0 {
		r.malformed()
		return false
	}
	r.path = append(r.path, step{index: a.index})
	return true
}
