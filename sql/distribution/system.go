package distribution

// Undistributed are the tables that belong to no instance.
var Undistributed = []string{"goose_db_version", "master_keys"}

// Why statements are of all instances.
const (
	route  = "finds the instance that a request is for; nodes remember the answer"
	worker = "finds what is due on all instances, a batch for each round of a node; what is done then is bound"
	sweeps = "deletes what is over on all instances, in batches of an hourly task"
	reader = "reads the events of all instances in the order of commits, one node at a time"
	system = "is of operators and seeds, not of requests of tenants"
	sealed = "reads what the master key seals, before it claims a database or when another one seals all anew"
	reused = "a resource of the system is in use in any instance; when it is changed or deleted, which is rare, all are asked"
)

// System are the statements of sql/queries that are of all instances, with the reason.
var System = map[string]string{
	"InstanceByDomain": route, "FirstInstances": route, "PrimaryDomains": route,

	"SkipEvents": reader, "WhyThereAreNoEvents": reader, "HearingInstances": reader, "ReadEvents": reader, "GoAhead": reader, "ReadEventsAhead": reader, "EndAhead": reader, "RestartDeliveryCursor": reader,

	"LeaseDeliveryQueues": worker, "RenewDeliveryLeases": worker, "HeldDeliveryQueues": worker, "HeldDeliveries": worker, "TakeMessages": worker,
	"InstanceIDs": worker, "InstancesWithKeys": worker, "InstancesWithRetention": worker, "AbandonedRegistration": worker,

	"SweepDeliveries": sweeps, "SweepMessages": sweeps, "SweepGrants": sweeps, "SweepRevoked": sweeps, "SweepAssertions": sweeps,
	"SweepBrowserTries": sweeps, "SweepOperations": sweeps,

	"Readings": system, "InstanceByName": system, "EventsOfTransaction": system, "NewestMessages": system,

	"HasLinks": reused, "DeleteStatePolicies": reused,

	"SealedAuthenticators": sealed, "SealedIdps": sealed, "SealedOperationChunks": sealed, "SealedSmtpProviders": sealed, "SealedSmsProviders": sealed,
	"SealedSigningKeys": sealed, "SealedTargets": sealed, "SealedTokenKeys": sealed,
}

// Global are the unique keys that hold for all instances, with the reason.
var Global = map[string]string{
	"instances_name_key": system,
	"domains_host_key":   route,
}

// Anywhere are the foreign keys to rows of the system as well, with the reason.
var Anywhere = map[string]string{
	"idp_links_idp_fkey": reused,
}

// SystemTexts are parts of statements, of functions, triggers and those that are put together,
// that are of all instances.
var SystemTexts = map[string]string{
	"FROM instance_rows t WHERE":                  system,
	"WHERE (length(":                              system, // what is sealed: opened before a master key claims a database, or sealed anew
	`OPERATOR(pg_catalog.=) "of_instance"`:        system, // an instance is deleted
	`DELETE FROM ONLY "public"."idp_links" WHERE`: reused, // ON DELETE CASCADE
}
