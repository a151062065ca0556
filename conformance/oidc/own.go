package oidc

// ownModules are those of no official plan.
func ownModules() []module {
	return []module{}
}

func ownVariants() []step { return nil }
