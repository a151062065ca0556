// What openapi-generator's java client makes of the contract.

import java.net.URI;
import java.util.List;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.OAuthApi;
import org.openapitools.client.api.ServiceActionsApi;
import org.openapitools.client.model.*;

public class Client {
  public static void main(String[] args) throws ApiException {
    String name = System.getenv("WRIT_NAME");
    ApiClient client = new ApiClient();
    client.setBasePath(System.getenv("WRIT_URL"));
    client.setBearerToken(System.getenv("WRIT_TOKEN"));
    ServiceActionsApi actions = new ServiceActionsApi(client);
    Target target = new Target().name(name).restWebhook(new RestWebhook().url(URI.create("https://hooks.example/a"))).timeout("10s").isAsync(true);
    String id = actions.createTarget(target).getDetails().getId();
    System.out.println("created " + id);

    TargetOutput read = actions.getTarget(id).getTarget().getTarget();
    check(read.getName().equals(name) && read.getRestWebhook().getUrl().toString().equals("https://hooks.example/a") && read.getTimeout().equals("10s") && read.getIsAsync(), read);
    System.out.println("read " + (read.getRestRequestResponse() == null ? "None" : read));

    TargetSearchFilter byName = new TargetSearchFilter().name(new TargetNameFilter().name(name.toUpperCase()).method(TextFilterMethod.TEXT_FILTER_METHOD_EQUALS_IGNORE_CASE));
    SearchTargetsReply found = actions.searchTargets(null, 10L, true, TargetFieldName.TARGET_FIELD_NAME_NAME, List.of(byName));
    check(found.getResult().size() == 1 && found.getResult().get(0).getDetails().getId().equals(id) && found.getDetails().getEndOfList(), found);
    System.out.println("found " + found.getDetails().getTotalResult());

    actions.patchTarget(id, new PatchTarget().timeout("5s").restRequestResponse(new RestRequestResponse().url(URI.create("https://hooks.example/b"))));
    TargetOutput patched = actions.getTarget(id).getTarget().getTarget();
    check(patched.getName().equals(name) && patched.getTimeout().equals("5s") && patched.getRestWebhook() == null, patched);
    System.out.println("patched " + patched.getRestRequestResponse().getUrl());

    try {
      actions.createTarget(target);
    } catch (ApiException refusal) {
      String reason = refusal.getResponseBody().replaceAll("(?s).*\"reason\":\\s*\"([A-Z_]+)\".*", "$1");
      System.out.println("refused " + refusal.getCode() + " " + reason);
    }

    actions.deleteTarget(id);
    try {
      actions.getTarget(id);
    } catch (ApiException refusal) {
      System.out.println("deleted " + refusal.getCode());
    }

    TokenReply tokens = new OAuthApi(client).token("client_credentials", null, null, null, null, "openid", null, null, null, null, null, null, null, null,
        System.getenv("WRIT_CLIENT_ID"), System.getenv("WRIT_CLIENT_SECRET"), null, null);
    System.out.println("token " + tokens.getTokenType().getValue());
  }

  static void check(boolean holds, Object got) {
    if (!holds) {
      throw new AssertionError(got);
    }
  }
}
