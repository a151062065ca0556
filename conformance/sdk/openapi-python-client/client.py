"""What openapi-python-client makes of the contract."""

import os

from writ_client import AuthenticatedClient, Client
from writ_client.api.o_auth import token
from writ_client.api.service_actions import create_target, delete_target, get_target, patch_target, search_targets
from writ_client.models import (
    CreateTargetReply, GetTargetReply, PatchTarget, RestRequestResponse, RestWebhook, SearchTargetsReply, Status, Target,
    TargetFieldName, TargetNameFilter, TargetSearchFilter, TextFilterMethod, TokenReply, TokenRequest,
)
from writ_client.types import UNSET

name = os.environ["WRIT_NAME"]
client = AuthenticatedClient(base_url=os.environ["WRIT_URL"], token=os.environ["WRIT_TOKEN"])
target = Target(name=name, rest_webhook=RestWebhook(url="https://hooks.example/a"), timeout="10s", is_async=True)
created = create_target.sync(client=client, body=target)
assert isinstance(created, CreateTargetReply), created
id = created.details.id
print("created", id)

read = get_target.sync(id, client=client)
assert isinstance(read, GetTargetReply), read
got = read.target.target
assert (got.name, got.rest_webhook.url, got.timeout, got.is_async) == (name, "https://hooks.example/a", "10s", True)
print("read", None if got.rest_request_response is UNSET else got.rest_request_response)

by_name = TargetSearchFilter(name=TargetNameFilter(name=name.upper(), method=TextFilterMethod.TEXT_FILTER_METHOD_EQUALS_IGNORE_CASE))
found = search_targets.sync(client=client, body=[by_name], query_limit=10, query_asc=True, sorting_column=TargetFieldName.TARGET_FIELD_NAME_NAME)
assert isinstance(found, SearchTargetsReply), found
assert [each.details.id for each in found.result] == [id] and found.details.end_of_list
print("found", found.details.total_result)

patch_target.sync(id, client=client, body=PatchTarget(timeout="5s", rest_request_response=RestRequestResponse(url="https://hooks.example/b")))
patched = get_target.sync(id, client=client).target.target
assert (patched.name, patched.timeout, patched.rest_webhook) == (name, "5s", UNSET)
print("patched", patched.rest_request_response.url)

refused = create_target.sync_detailed(client=client, body=target)
assert isinstance(refused.parsed, Status), refused
print("refused", int(refused.status_code), refused.parsed.details[0]["reason"])

delete_target.sync(id, client=client)
print("deleted", int(get_target.sync_detailed(id, client=client).status_code))

tokens = token.sync(client=Client(base_url=os.environ["WRIT_URL"]), body=TokenRequest(
    grant_type="client_credentials", scope="openid", client_id=os.environ["WRIT_CLIENT_ID"], client_secret=os.environ["WRIT_CLIENT_SECRET"]))
assert isinstance(tokens, TokenReply), tokens
print("token", tokens.token_type.value)
