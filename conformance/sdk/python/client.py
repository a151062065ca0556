"""What openapi-generator's python client makes of the contract."""

import os

import openapi_client
from openapi_client.models import (
    PatchTarget, RestRequestResponse, RestWebhook, Target, TargetFieldName, TargetNameFilter, TargetSearchFilter, TextFilterMethod,
)

name = os.environ["WRIT_NAME"]
settings = openapi_client.Configuration(host=os.environ["WRIT_URL"], access_token=os.environ["WRIT_TOKEN"])
with openapi_client.ApiClient(settings) as client:
    actions = openapi_client.ServiceActionsApi(client)
    target = Target(name=name, rest_webhook=RestWebhook(url="https://hooks.example/a"), timeout="10s", is_async=True)
    id = actions.create_target(target).details.id
    print("created", id)

    read = actions.get_target(id).target
    assert read.details.id == id
    assert (read.target.name, read.target.rest_webhook.url, read.target.timeout, read.target.is_async) == (name, "https://hooks.example/a", "10s", True)
    print("read", read.target.rest_request_response)

    by_name = TargetSearchFilter(name=TargetNameFilter(name=name.upper(), method=TextFilterMethod.TEXT_FILTER_METHOD_EQUALS_IGNORE_CASE))
    found = actions.search_targets(target_search_filter=[by_name], query_limit=10, query_asc=True, sorting_column=TargetFieldName.TARGET_FIELD_NAME_NAME)
    assert [each.details.id for each in found.result] == [id] and found.details.end_of_list
    print("found", found.details.total_result)

    actions.patch_target(id, PatchTarget(timeout="5s", rest_request_response=RestRequestResponse(url="https://hooks.example/b")))
    patched = actions.get_target(id).target.target
    assert (patched.name, patched.timeout, patched.rest_webhook) == (name, "5s", None)
    print("patched", patched.rest_request_response.url)

    try:
        actions.create_target(target)
    except openapi_client.exceptions.ConflictException as refusal:
        print("refused", refusal.status, refusal.data.details[0].additional_properties["reason"])

    actions.delete_target(id)
    try:
        actions.get_target(id)
    except openapi_client.exceptions.NotFoundException as refusal:
        print("deleted", refusal.status)

    tokens = openapi_client.OAuthApi(client).token(
        grant_type="client_credentials", scope="openid", client_id=os.environ["WRIT_CLIENT_ID"], client_secret=os.environ["WRIT_CLIENT_SECRET"])
    print("token", tokens.token_type)
